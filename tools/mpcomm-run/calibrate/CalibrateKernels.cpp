//===- CalibrateKernels.cpp - kernels to measure a GPU with ---------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// PTX, written by hand, as the runner has no compiler: one kernel that does
// nothing, and one that has each thread multiply and add 1024 times, in four
// chains, to the float that is its own.
//
//===----------------------------------------------------------------------===//

#include "calibrate/Calibrate.h"

using namespace mpcomm::run;

static const char ptx[] = R"(.version 7.0
.target sm_80
.address_size 64

.visible .entry mpcomm_calibrate_nothing()
{
	ret;
}

.visible .entry mpcomm_calibrate_polynomial(.param .u64 operand)
{
	.reg .pred %p<2>;
	.reg .f32 %f<5>;
	.reg .b32 %r<5>;
	.reg .b64 %rd<5>;

	ld.param.u64 	%rd1, [operand];
	cvta.to.global.u64 	%rd2, %rd1;
	mov.u32 	%r1, %ctaid.x;
	mov.u32 	%r2, %ntid.x;
	mov.u32 	%r3, %tid.x;
	mad.lo.u32 	%r4, %r1, %r2, %r3;
	mul.wide.u32 	%rd3, %r4, 4;
	add.s64 	%rd4, %rd2, %rd3;
	ld.global.f32 	%f0, [%rd4];
	mov.f32 	%f1, 0f3F000000;
	mov.f32 	%f2, 0f3E800000;
	mov.f32 	%f3, 0f3E000000;
	mov.f32 	%f4, 0f3D800000;
	mov.u32 	%r1, 64;
again:
	fma.rn.f32 	%f1, %f1, %f0, 0f3E800000;
	fma.rn.f32 	%f2, %f2, %f0, 0f3E800000;
	fma.rn.f32 	%f3, %f3, %f0, 0f3E800000;
	fma.rn.f32 	%f4, %f4, %f0, 0f3E800000;
	fma.rn.f32 	%f1, %f1, %f0, 0f3E800000;
	fma.rn.f32 	%f2, %f2, %f0, 0f3E800000;
	fma.rn.f32 	%f3, %f3, %f0, 0f3E800000;
	fma.rn.f32 	%f4, %f4, %f0, 0f3E800000;
	fma.rn.f32 	%f1, %f1, %f0, 0f3E800000;
	fma.rn.f32 	%f2, %f2, %f0, 0f3E800000;
	fma.rn.f32 	%f3, %f3, %f0, 0f3E800000;
	fma.rn.f32 	%f4, %f4, %f0, 0f3E800000;
	fma.rn.f32 	%f1, %f1, %f0, 0f3E800000;
	fma.rn.f32 	%f2, %f2, %f0, 0f3E800000;
	fma.rn.f32 	%f3, %f3, %f0, 0f3E800000;
	fma.rn.f32 	%f4, %f4, %f0, 0f3E800000;
	sub.u32 	%r1, %r1, 1;
	setp.ne.u32 	%p1, %r1, 0;
	@%p1 bra 	again;
	add.f32 	%f1, %f1, %f2;
	add.f32 	%f3, %f3, %f4;
	add.f32 	%f1, %f1, %f3;
	mul.f32 	%f1, %f1, 0f3A83126F;
	st.global.f32 	[%rd4], %f1;
	ret;
}
)";

const mprt_image mpcomm::run::calibrationImages[] = {{80, 1, ptx, sizeof(ptx)},
                                                     {0, 0, nullptr, 0}};

static mprt_kernel describeKernel(const char *symbol, uint32_t operands,
                                  uint32_t threads) {
  mprt_kernel kernel{};
  kernel.name = "calibration";
  kernel.location = "mpcomm-run";
  kernel.symbol = symbol;
  kernel.operands = operands;
  kernel.threads = threads;
  kernel.blocks = 1;
  return kernel;
}

const mprt_kernel mpcomm::run::calibrationNothing =
    describeKernel("mpcomm_calibrate_nothing", 0, 32);
const mprt_kernel mpcomm::run::calibrationPolynomial =
    describeKernel("mpcomm_calibrate_polynomial", 1, 256);
