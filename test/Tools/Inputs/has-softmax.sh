#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Interesting (1) is a module that parses and has the softmax; the rest is 0.
mpcomm-opt "$1" | grep -q 'mpcomm\.softmax' && exit 1
exit 0
