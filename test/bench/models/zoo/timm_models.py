# ===- timm_models.py - architectures of timm -----------------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Forty architectures of timm, each of a family of its own, trained with its soft
targets or label smoothing as timm's script does."""

import torch

from families import adamw, classifier, images, load, model, sgd

# Networks of convolutions, which take images of any size; and those that are built for one.
CONVOLUTIONAL = """seresnet18 skresnet18 ecaresnet26t res2net50_14w_8s resnest14d resnetv2_50
    nf_regnet_b0 efficientnet_lite0 mobilenetv4_conv_small ghostnet_050 hrnet_w18_small dla34
    regnetz_005 ese_vovnet19b_dw cs3darknet_s inception_next_atto tresnet_m rexnet_100
    convnextv2_atto convmixer_768_32 lcnet_050 hgnetv2_b0 dpn48b repvgg_a0 fastvit_t8
    fasternet_t0 mambaout_femto""".split()
OF_ONE_SIZE = """mixer_s32_224 gmlp_ti16_224 resmlp_12_224 deit_tiny_patch16_224
    cait_xxs24_224 xcit_nano_12_p16_224 pvt_v2_b0 coat_lite_tiny levit_128s mobilevit_xxs
    poolformer_s12 edgenext_xx_small coatnet_nano_rw_224 pit_ti_224 tnt_s_patch16_224
    visformer_tiny davit_tiny focalnet_tiny_srf hiera_tiny_224 mvitv2_tiny nest_tiny
    convit_tiny eva02_tiny_patch14_224 sequencer2d_s botnet26t_256 gcvit_xxtiny""".split()
# Whose first step gives buffers the size that the others have.
SIZED_BY_A_STEP = {"convit_tiny"}
# Their constructors know no size of images.
ANY_SIZE = {"pvt_v2_b0", "poolformer_s12", "edgenext_xx_small", "davit_tiny", "focalnet_tiny_srf"}


def register(name):
    @model("timm", name, "timm")
    def make():
        timm = load("timm")
        options = {} if name in CONVOLUTIONAL or name in ANY_SIZE else {"img_size": 64}
        net = timm.create_model(name, num_classes=10, **options)
        if name in SIZED_BY_A_STEP:
            with torch.no_grad():
                net(torch.zeros(1, 3, 64, 64))
        return classifier(net, images(64), optimizer=(sgd if name in CONVOLUTIONAL else adamw)(net),
                          loss=load("timm.loss").LabelSmoothingCrossEntropy(0.1))


for name in CONVOLUTIONAL + OF_ONE_SIZE:
    register(name)
