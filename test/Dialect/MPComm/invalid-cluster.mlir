// Each numbered constraint of #mpcomm.cluster and its parts is broken once.

// RUN: mpcomm-opt %s -split-input-file -verify-diagnostics

// expected-error@+1 {{expects 'memory_bandwidth' to be positive, got 0}}
func.func private @device_c1() attributes {a = #mpcomm.device<name = "", flops = {f32 = 1.0e11}, memory_bandwidth = 0.0, memory_bytes = 1, launch = 0.0>}

// -----

// expected-error@+1 {{expects 'memory_bytes' to be positive, got 0}}
func.func private @device_c1_bytes() attributes {a = #mpcomm.device<name = "", flops = {f32 = 1.0e11}, memory_bandwidth = 1.0e10, memory_bytes = 0, launch = 0.0>}

// -----

// expected-error@+1 {{expects 'launch' not to be negative, got -1}}
func.func private @device_c1_launch() attributes {a = #mpcomm.device<name = "", flops = {f32 = 1.0e11}, memory_bandwidth = 1.0e10, memory_bytes = 1, launch = -1.0>}

// -----

// expected-error@+1 {{expects 'memory_bandwidth' to be positive, got}}
func.func private @device_c1_infinite() attributes {a = #mpcomm.device<name = "", flops = {f32 = 1.0e11}, memory_bandwidth = 0x7FF0000000000000, memory_bytes = 1, launch = 0.0>}

// -----

// expected-error@+1 {{expects 'flops' to have 'f32'}}
func.func private @device_c2() attributes {a = #mpcomm.device<name = "", flops = {}, memory_bandwidth = 1.0e10, memory_bytes = 1, launch = 0.0>}

// -----

// expected-error@+1 {{expects keys of 'flops' to be element types or 'vector', got 'f31'}}
func.func private @device_c2_key() attributes {a = #mpcomm.device<name = "", flops = {f32 = 1.0, f31 = 1.0}, memory_bandwidth = 1.0e10, memory_bytes = 1, launch = 0.0>}

// -----

// expected-error@+1 {{expects an f64 for 'f32' of 'flops', got 1 : i32}}
func.func private @device_c2_type() attributes {a = #mpcomm.device<name = "", flops = {f32 = 1 : i32}, memory_bandwidth = 1.0e10, memory_bytes = 1, launch = 0.0>}

// -----

// expected-error@+1 {{expects 'f32' to be positive, got 0}}
func.func private @device_c2_rate() attributes {a = #mpcomm.device<name = "", flops = {f32 = 0.0}, memory_bandwidth = 1.0e10, memory_bytes = 1, launch = 0.0>}

// -----

// expected-error@+1 {{expects 'latency' not to be negative, got -1}}
func.func private @link_c1() attributes {a = #mpcomm.link<name = "a", ranks = 0, latency = -1.0, bandwidth = 1.0e9, contends = true, rails = 1>}

// -----

// expected-error@+1 {{expects 'bandwidth' to be positive, got 0}}
func.func private @link_c1_bandwidth() attributes {a = #mpcomm.link<name = "a", ranks = 0, latency = 0.0, bandwidth = 0.0, contends = true, rails = 1>}

// -----

// expected-error@+1 {{expects 'ranks' and 'rails' not to be negative, got -8 and 1}}
func.func private @link_c2() attributes {a = #mpcomm.link<name = "a", ranks = -8, latency = 0.0, bandwidth = 1.0e9, contends = true, rails = 1>}

// -----

// expected-error@+1 {{expects 'ranks' and 'rails' not to be negative, got 0 and -1}}
func.func private @link_c2_rails() attributes {a = #mpcomm.link<name = "a", ranks = 0, latency = 0.0, bandwidth = 1.0e9, contends = true, rails = -1>}

// -----

// expected-error@+1 {{expects a name for each link}}
func.func private @link_c2_name() attributes {a = #mpcomm.link<name = "", ranks = 0, latency = 0.0, bandwidth = 1.0e9, contends = true, rails = 1>}

// -----

// expected-error@+1 {{expects 'kind' to be a collective, got 'sum'}}
func.func private @measured_c1() attributes {a = #mpcomm.measured<kind = "sum", ranks = 2, backend = "", alpha = 0.0, beta = 0.0, link = "">}

// -----

// expected-error@+1 {{expects 'ranks' to be positive, got 0}}
func.func private @measured_c2() attributes {a = #mpcomm.measured<kind = "all_reduce", ranks = 0, backend = "", alpha = 0.0, beta = 0.0, link = "">}

// -----

// expected-error@+1 {{expects 'alpha' not to be negative, got -1}}
func.func private @measured_c2_alpha() attributes {a = #mpcomm.measured<kind = "all_reduce", ranks = 2, backend = "", alpha = -1.0, beta = 0.0, link = "">}

// -----

// expected-error@+1 {{expects 'beta' not to be negative, got -1}}
func.func private @measured_c2_beta() attributes {a = #mpcomm.measured<kind = "all_reduce", ranks = 2, backend = "", alpha = 0.0, beta = -1.0, link = "">}

// -----

// expected-error@+1 {{expects at least one link}}
func.func private @cluster_c1() attributes {a = #mpcomm.cluster<name = "", source = "", device = <name = "", flops = {f32 = 1.0e11}, memory_bandwidth = 1.0e10, memory_bytes = 1, launch = 0.0>, links = [], compute_rate_under_comm = 1.0, comm_rate_under_compute = 1.0, collective_launch = 0.0>}

// -----

// expected-error@+1 {{expects 'links' to hold #mpcomm.link, got 1 : i32}}
func.func private @cluster_c1_kind() attributes {a = #mpcomm.cluster<name = "", source = "", device = <name = "", flops = {f32 = 1.0e11}, memory_bandwidth = 1.0e10, memory_bytes = 1, launch = 0.0>, links = [1 : i32], compute_rate_under_comm = 1.0, comm_rate_under_compute = 1.0, collective_launch = 0.0>}

// -----

// expected-error@+1 {{names link 'a' twice}}
func.func private @cluster_c1_names() attributes {a = #mpcomm.cluster<name = "", source = "", device = <name = "", flops = {f32 = 1.0e11}, memory_bandwidth = 1.0e10, memory_bytes = 1, launch = 0.0>, links = [#mpcomm.link<name = "a", ranks = 2, latency = 0.0, bandwidth = 1.0e9, contends = true, rails = 1>, #mpcomm.link<name = "a", ranks = 0, latency = 0.0, bandwidth = 1.0e9, contends = true, rails = 1>], compute_rate_under_comm = 1.0, comm_rate_under_compute = 1.0, collective_launch = 0.0>}

// -----

// expected-error@+1 {{expects the last link to join all ranks, as 0, got 8}}
func.func private @cluster_c2() attributes {a = #mpcomm.cluster<name = "", source = "", device = <name = "", flops = {f32 = 1.0e11}, memory_bandwidth = 1.0e10, memory_bytes = 1, launch = 0.0>, links = [#mpcomm.link<name = "a", ranks = 8, latency = 0.0, bandwidth = 1.0e9, contends = true, rails = 1>], compute_rate_under_comm = 1.0, comm_rate_under_compute = 1.0, collective_launch = 0.0>}

// -----

// expected-error@+1 {{expects 'ranks' of link 'b' to be a multiple of 8 and larger, got 12}}
func.func private @cluster_c2_multiple() attributes {a = #mpcomm.cluster<name = "", source = "", device = <name = "", flops = {f32 = 1.0e11}, memory_bandwidth = 1.0e10, memory_bytes = 1, launch = 0.0>, links = [#mpcomm.link<name = "a", ranks = 8, latency = 0.0, bandwidth = 1.0e9, contends = true, rails = 1>, #mpcomm.link<name = "b", ranks = 12, latency = 0.0, bandwidth = 1.0e9, contends = true, rails = 1>, #mpcomm.link<name = "c", ranks = 0, latency = 0.0, bandwidth = 1.0e9, contends = true, rails = 1>], compute_rate_under_comm = 1.0, comm_rate_under_compute = 1.0, collective_launch = 0.0>}

// -----

// expected-error@+1 {{expects 'ranks' of link 'a' to be a multiple of 1 and larger, got 0}}
func.func private @cluster_c2_inner() attributes {a = #mpcomm.cluster<name = "", source = "", device = <name = "", flops = {f32 = 1.0e11}, memory_bandwidth = 1.0e10, memory_bytes = 1, launch = 0.0>, links = [#mpcomm.link<name = "a", ranks = 0, latency = 0.0, bandwidth = 1.0e9, contends = true, rails = 1>, #mpcomm.link<name = "b", ranks = 0, latency = 0.0, bandwidth = 1.0e9, contends = true, rails = 1>], compute_rate_under_comm = 1.0, comm_rate_under_compute = 1.0, collective_launch = 0.0>}

// -----

// expected-error@+1 {{expects 'measured' to hold #mpcomm.measured, got 1 : i32}}
func.func private @cluster_c3() attributes {a = #mpcomm.cluster<name = "", source = "", device = <name = "", flops = {f32 = 1.0e11}, memory_bandwidth = 1.0e10, memory_bytes = 1, launch = 0.0>, links = [#mpcomm.link<name = "a", ranks = 0, latency = 0.0, bandwidth = 1.0e9, contends = true, rails = 1>], measured = [1 : i32], compute_rate_under_comm = 1.0, comm_rate_under_compute = 1.0, collective_launch = 0.0>}

// -----

// expected-error@+1 {{has a measured collective on link 'b', which does not exist}}
func.func private @cluster_c3_link() attributes {a = #mpcomm.cluster<name = "", source = "", device = <name = "", flops = {f32 = 1.0e11}, memory_bandwidth = 1.0e10, memory_bytes = 1, launch = 0.0>, links = [#mpcomm.link<name = "a", ranks = 0, latency = 0.0, bandwidth = 1.0e9, contends = true, rails = 1>], measured = [#mpcomm.measured<kind = "all_reduce", ranks = 2, backend = "", alpha = 0.0, beta = 0.0, link = "b">], compute_rate_under_comm = 1.0, comm_rate_under_compute = 1.0, collective_launch = 0.0>}

// -----

// expected-error@+1 {{expects 'compute_rate_under_comm' in (0, 1], got 0}}
func.func private @cluster_c4() attributes {a = #mpcomm.cluster<name = "", source = "", device = <name = "", flops = {f32 = 1.0e11}, memory_bandwidth = 1.0e10, memory_bytes = 1, launch = 0.0>, links = [#mpcomm.link<name = "a", ranks = 0, latency = 0.0, bandwidth = 1.0e9, contends = true, rails = 1>], compute_rate_under_comm = 0.0, comm_rate_under_compute = 1.0, collective_launch = 0.0>}

// -----

// expected-error@+1 {{expects 'comm_rate_under_compute' in (0, 1], got 1.5}}
func.func private @cluster_c4_transfer() attributes {a = #mpcomm.cluster<name = "", source = "", device = <name = "", flops = {f32 = 1.0e11}, memory_bandwidth = 1.0e10, memory_bytes = 1, launch = 0.0>, links = [#mpcomm.link<name = "a", ranks = 0, latency = 0.0, bandwidth = 1.0e9, contends = true, rails = 1>], compute_rate_under_comm = 1.0, comm_rate_under_compute = 1.5, collective_launch = 0.0>}

// -----

// expected-error@+1 {{expects 'collective_launch' not to be negative, got -1}}
func.func private @cluster_c4_launch() attributes {a = #mpcomm.cluster<name = "", source = "", device = <name = "", flops = {f32 = 1.0e11}, memory_bandwidth = 1.0e10, memory_bytes = 1, launch = 0.0>, links = [#mpcomm.link<name = "a", ranks = 0, latency = 0.0, bandwidth = 1.0e9, contends = true, rails = 1>], compute_rate_under_comm = 1.0, comm_rate_under_compute = 1.0, collective_launch = -1.0>}

// -----

// expected-error@+1 {{expects 'algorithms' to hold names of algorithms, got "star"}}
func.func private @cluster_c5() attributes {a = #mpcomm.cluster<name = "", source = "", device = <name = "", flops = {f32 = 1.0e11}, memory_bandwidth = 1.0e10, memory_bytes = 1, launch = 0.0>, links = [#mpcomm.link<name = "a", ranks = 0, latency = 0.0, bandwidth = 1.0e9, contends = true, rails = 1>], compute_rate_under_comm = 1.0, comm_rate_under_compute = 1.0, collective_launch = 0.0, algorithms = ["star"]>}

// -----

// expected-error@+1 {{expects 'algorithms' to hold names of algorithms, got "measured"}}
func.func private @cluster_c5_measured() attributes {a = #mpcomm.cluster<name = "", source = "", device = <name = "", flops = {f32 = 1.0e11}, memory_bandwidth = 1.0e10, memory_bytes = 1, launch = 0.0>, links = [#mpcomm.link<name = "a", ranks = 0, latency = 0.0, bandwidth = 1.0e9, contends = true, rails = 1>], compute_rate_under_comm = 1.0, comm_rate_under_compute = 1.0, collective_launch = 0.0, algorithms = ["measured"]>}

// -----

// expected-error@+1 {{'func.func' op cannot carry 'mpcomm.cluster': it is not a module}}
func.func private @place() attributes {mpcomm.cluster = #mpcomm.cluster<name = "", source = "", device = <name = "", flops = {f32 = 1.0e11}, memory_bandwidth = 1.0e10, memory_bytes = 1, launch = 0.0>, links = [#mpcomm.link<name = "a", ranks = 0, latency = 0.0, bandwidth = 1.0e9, contends = true, rails = 1>], compute_rate_under_comm = 1.0, comm_rate_under_compute = 1.0, collective_launch = 0.0>}

// -----

// expected-error@+1 {{'builtin.module' op expects 'mpcomm.cluster' to be #mpcomm.cluster<...>, got "local"}}
module attributes {mpcomm.cluster = "local"} {
}

// -----

// expected-error @below {{expects keys of 'efficiency' to be kinds of products, got 'loop'}}
func.func private @device_c3() attributes {a = #mpcomm.device<name = "", flops = {f32 = 1.0}, memory_bandwidth = 1.0, memory_bytes = 1, launch = 0.0, efficiency = {loop = 1.0}>}

// -----

// expected-error @below {{expects an f64 for 'product' of 'efficiency', got 1 : i32}}
func.func private @device_c3_type() attributes {a = #mpcomm.device<name = "", flops = {f32 = 1.0}, memory_bandwidth = 1.0, memory_bytes = 1, launch = 0.0, efficiency = {product = 1 : i32}>}

// -----

// expected-error @below {{expects 'product' of 'efficiency' to be at most 4.0}}
func.func private @device_c3_share() attributes {a = #mpcomm.device<name = "", flops = {f32 = 1.0}, memory_bandwidth = 1.0, memory_bytes = 1, launch = 0.0, efficiency = {product = 4.5}>}
