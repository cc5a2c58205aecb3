// The cluster of a module is printed and read back as it is.

// RUN: mpcomm-opt %s -split-input-file | mpcomm-opt -split-input-file | FileCheck %s

// CHECK: module attributes {mpcomm.cluster = #mpcomm.cluster<name = "two levels", source = "made up",
// CHECK-SAME: device = <name = "gpu", flops = {bf16 = 8.000000e+14 : f64, f32 = 1.000000e+14 : f64, vector = 5.000000e+13 : f64},
// CHECK-SAME: memory_bandwidth = 3.000000e+12, memory_bytes = 80000000000, launch = 2.000000e-06, efficiency = {attention = 5.000000e-01 : f64}>,
// CHECK-SAME: links = [#mpcomm.link<name = "near", ranks = 8, latency = 2.000000e-06, bandwidth = 4.000000e+11, contends = true, rails = 0>,
// CHECK-SAME: #mpcomm.link<name = "far", ranks = 0, latency = 5.000000e-06, bandwidth = 5.000000e+10, contends = false, rails = 1>],
// CHECK-SAME: measured = [#mpcomm.measured<kind = "all_reduce", ranks = 2, backend = "shm", alpha = 2.000000e-06, beta = 1.000000e-10, link = "near">],
// CHECK-SAME: compute_rate_under_comm = 8.500000e-01, comm_rate_under_compute = 1.000000e+00, collective_launch = 0.000000e+00,
// CHECK-SAME: algorithms = ["ring", "tree"]>}
module attributes {mpcomm.cluster = #mpcomm.cluster<
    source = "made up", name = "two levels",
    device = #mpcomm.device<name = "gpu", flops = {f32 = 1.0e14, bf16 = 8.0e14, vector = 5.0e13},
                            memory_bandwidth = 3.0e12, memory_bytes = 80000000000, launch = 2.0e-6,
                            efficiency = {attention = 0.5}>,
    links = [#mpcomm.link<name = "near", ranks = 8, latency = 2.0e-6, bandwidth = 4.0e11, contends = true, rails = 0>,
             #mpcomm.link<name = "far", ranks = 0, latency = 5.0e-6, bandwidth = 5.0e10, contends = false, rails = 1>],
    measured = [#mpcomm.measured<kind = "all_reduce", ranks = 2, backend = "shm", alpha = 2.0e-6, beta = 1.0e-10, link = "near">],
    compute_rate_under_comm = 0.85, comm_rate_under_compute = 1.0, collective_launch = 0.0,
    algorithms = ["ring", "tree"]>} {
}

// -----

// Without what is optional.
// CHECK: links = [#mpcomm.link<name = "shm"
// CHECK-SAME: rails = 1>], compute_rate_under_comm
// CHECK-SAME: collective_launch = 2.000000e-06>}
module attributes {mpcomm.cluster = #mpcomm.cluster<
    name = "", source = "",
    device = <name = "", flops = {f32 = 1.0e11}, memory_bandwidth = 1.0e10, memory_bytes = 1, launch = 0.0>,
    links = [#mpcomm.link<name = "shm", ranks = 0, latency = 0.0, bandwidth = 1.0e9, contends = true, rails = 1>],
    compute_rate_under_comm = 1.0, comm_rate_under_compute = 1.0, collective_launch = 2.0e-6>} {
}
