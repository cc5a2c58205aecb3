# ===- torchvision_models.py - torchvision's networks ---------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Classification (one or two of each family), video, segmentation, and backbones of
detectors with their heads."""

import torch
import torch.nn as nn
import torch.nn.functional as F

from families import adamw, classifier, images, labels, load, mi, model, sgd

# name: pixels
CONVOLUTIONAL = {
    "alexnet": 64, "densenet121": 64, "efficientnet_b0": 64, "efficientnet_v2_s": 64,
    "mnasnet0_5": 64, "mobilenet_v2": 64, "mobilenet_v3_small": 64,
    "mobilenet_v3_large": 64, "regnet_x_400mf": 64, "regnet_y_400mf": 64, "resnet18": 64,
    "resnet50": 64, "resnext50_32x4d": 64, "shufflenet_v2_x0_5": 64, "squeezenet1_1": 64,
    "vgg11_bn": 32}
TRANSFORMERS = {"convnext_tiny": 64, "swin_t": 64, "swin_v2_t": 64}
VIDEO = {"r3d_18": (4, 32, 32), "mc3_18": (4, 32, 32), "r2plus1d_18": (4, 32, 32),
         "swin3d_t": (4, 64, 64)}


def vision(name, **options):
    return getattr(load("torchvision").models, name)(num_classes=10, **options)


def video(name, **options):
    return getattr(load("torchvision").models.video, name)(num_classes=10, **options)


def register(names, family, make):
    for name in names:
        model(family, name, "torchvision")(lambda name=name: make(name))


def convolutional(name):
    return classifier(vision(name), images(CONVOLUTIONAL[name]))


def transformer(name):
    net = vision(name)
    return classifier(net, images(TRANSFORMERS[name]), optimizer=adamw(net, 5e-4, 0.05),
                      loss=nn.CrossEntropyLoss(label_smoothing=0.1))


def clips(name):
    x = torch.randn(8, 3, *VIDEO[name])
    return classifier(video(name), {"x": x, "y": labels(x, 10)}, batch=2)


FAMILY = "torchvision"
register(CONVOLUTIONAL, FAMILY, convolutional)
register(TRANSFORMERS, FAMILY, transformer)


@model(FAMILY, "vit_b_16", "torchvision")
def vit():
    net = load("torchvision").models.VisionTransformer(
        image_size=64, patch_size=16, num_layers=4, num_heads=4, hidden_dim=128,
        mlp_dim=512, num_classes=10, dropout=0.1)
    nn.init.trunc_normal_(net.heads.head.weight, std=0.02)
    return classifier(net, images(64), optimizer=adamw(net))


@model(FAMILY, "maxvit_t", "torchvision")
def maxvit():
    net = load("torchvision").models.MaxVit(
        input_size=(64, 64), stem_channels=32, partition_size=2, block_channels=[32, 64],
        block_layers=[1, 2], head_dim=16, stochastic_depth_prob=0.1, num_classes=10)
    return classifier(net, images(64), optimizer=adamw(net))


def auxiliary(share):
    """The loss of a network with heads on the way, a named tuple in training mode and
    logits in evaluation mode."""
    def loss(output, y):
        if isinstance(output, torch.Tensor):
            return F.cross_entropy(output, y)
        total = F.cross_entropy(output[0], y)
        for logits in output[1:]:
            total = total + share * F.cross_entropy(logits, y)
        return total
    return loss


@model(FAMILY, "googlenet", "torchvision")
def googlenet():
    return classifier(vision("googlenet", init_weights=True), images(64),
                      loss=auxiliary(0.3))


@model(FAMILY, "inception_v3", "torchvision")
def inception():
    """Without the auxiliary head, which needs images of 299 pixels."""
    net = vision("inception_v3", init_weights=True, aux_logits=False)
    return classifier(net, images(96), batch=2)


register(VIDEO, "torchvision video", clips)


@model("torchvision video", "mvit_v2_s", "torchvision")
def mvit():
    models = load("torchvision").models.video
    blocks = [models.mvit.MSBlockConfig(
        num_heads=heads, input_channels=before, output_channels=after, kernel_q=[3, 3, 3],
        kernel_kv=[3, 3, 3], stride_q=[1, stride, stride], stride_kv=[1, keys, keys])
        for heads, before, after, stride, keys in ((1, 32, 32, 1, 4), (2, 32, 64, 2, 2))]
    net = models.MViT((32, 32), 8, blocks, residual_pool=True, residual_with_cls_embed=False,
                      rel_pos_embed=True, proj_after_attn=True, num_classes=10,
                      stochastic_depth_prob=0.1)
    x = torch.randn(8, 3, 8, 32, 32)
    return classifier(net, {"x": x, "y": labels(x, 10)}, batch=2, optimizer=adamw(net))


def pixels_loss(output, y):
    """As torchvision's reference script: the auxiliary head counts half."""
    loss = F.cross_entropy(output["out"], y, ignore_index=255)
    if "aux" in output:
        loss = loss + 0.5 * F.cross_entropy(output["aux"], y, ignore_index=255)
    return loss


def segmentation(name):
    net = getattr(load("torchvision").models.segmentation, name)(
        weights=None, weights_backbone=None, num_classes=5,
        **({} if name.startswith("lraspp") else {"aux_loss": True}))
    x = torch.randn(16, 3, 64, 64)
    y = F.avg_pool2d(x, 9, 1, 4)[:, 0].mul(8).long().clamp(0, 4)
    y[:, :2] = 255
    return mi.Workload(net, pixels_loss, sgd(net), 4, {"x": x, "y": y})


register(["fcn_resnet50", "deeplabv3_mobilenet_v3_large", "lraspp_mobilenet_v3_large"],
         "torchvision segmentation", segmentation)


class Pyramid(nn.Module):
    """A feature pyramid with RetinaNet's head on each level: classes and boxes of
    anchors. Anchors are assigned outside, the targets are data."""

    def __init__(self, backbone, head):
        super().__init__()
        self.backbone, self.head = backbone, head

    def forward(self, x):
        return self.head(list(self.backbone(x).values()))


def focal_loss(output, classes, boxes, foreground):
    losses = load("torchvision").ops
    scale = foreground.sum().clamp(min=1)
    logits = output["cls_logits"]
    target = F.one_hot(classes, logits.shape[-1]).to(logits.dtype)
    target = target * foreground.unsqueeze(-1)
    loss = losses.sigmoid_focal_loss(logits, target, reduction="sum") / scale
    near = F.smooth_l1_loss(output["bbox_regression"], boxes, reduction="none", beta=0.1)
    return loss + (near * foreground.unsqueeze(-1)).sum() / scale


def detector(net):
    x = torch.randn(16, 3, 64, 64)
    with torch.no_grad():
        count = net.eval()(x[:2])["cls_logits"].shape[1]
    net.train()
    foreground = (torch.rand(16, count) < 0.05).float()
    data = {"x": x, "classes": torch.randint(5, (16, count)),
            "boxes": torch.randn(16, count, 4) * 0.2, "foreground": foreground}
    return mi.Workload(net, focal_loss, sgd(net, lr=0.005), 2, data)


@model("torchvision detection", "retinanet_resnet50_fpn", "torchvision")
def retinanet():
    detection = load("torchvision").models.detection
    backbone = detection.backbone_utils.resnet_fpn_backbone(
        backbone_name="resnet50", weights=None, trainable_layers=5,
        norm_layer=nn.BatchNorm2d)
    return detector(Pyramid(backbone, detection.retinanet.RetinaNetHead(256, 3, 5)))


@model("torchvision detection", "retinanet_frozen_bn", "torchvision")
def retinanet_frozen():
    """As fine-tuned: frozen statistics, and the first layers are not trained."""
    detection = load("torchvision").models.detection
    backbone = detection.backbone_utils.resnet_fpn_backbone(
        backbone_name="resnet18", weights=None, trainable_layers=3)
    return detector(Pyramid(backbone, detection.retinanet.RetinaNetHead(256, 3, 5)))


class SSD(nn.Module):
    """SSD's lite backbone and head."""

    def __init__(self):
        super().__init__()
        models = load("torchvision").models
        lite = models.detection.ssdlite
        mobile = models.mobilenet_v3_large()
        norm = nn.BatchNorm2d
        self.backbone = lite._mobilenet_extractor(mobile, 6, norm)
        self.head = lite.SSDLiteHead([672, 960, 512, 256, 256, 128], [6] * 6, 5, norm)

    def forward(self, x):
        return self.head(list(self.backbone(x).values()))


@model("torchvision detection", "ssdlite_mobilenet_v3_large", "torchvision")
def ssd():
    return detector(SSD())


class Region(nn.Module):
    """Faster R-CNN's first stage: a MobileNet pyramid with the region proposal head,
    objectness and box of each anchor, for each level."""

    def __init__(self):
        super().__init__()
        detection = load("torchvision").models.detection
        self.backbone = detection.backbone_utils.mobilenet_backbone(
            backbone_name="mobilenet_v3_large", weights=None, fpn=True,
            norm_layer=nn.BatchNorm2d, trainable_layers=6)
        self.head = detection.rpn.RPNHead(256, 3)

    def forward(self, x):
        objectness, boxes = self.head(list(self.backbone(x).values()))
        flat = [t.permute(0, 2, 3, 1).flatten(1) for t in objectness]
        boxes = [t.permute(0, 2, 3, 1).reshape(len(x), -1, 4) for t in boxes]
        return torch.cat(flat, 1), torch.cat(boxes, 1)


def proposal_loss(output, target, boxes):
    objectness, near = output
    loss = F.binary_cross_entropy_with_logits(objectness, target)
    box = F.smooth_l1_loss(near, boxes, beta=1 / 9, reduction="none").sum(-1)
    return loss + (box * target).sum() / target.numel()


@model("torchvision detection", "rpn_mobilenet_v3_fpn", "torchvision")
def proposals():
    net = Region()
    x = torch.randn(16, 3, 64, 64)
    with torch.no_grad():
        count = net.eval()(x[:2])[0].shape[1]
    net.train()
    data = {"x": x, "target": (torch.rand(16, count) < 0.1).float(),
            "boxes": torch.randn(16, count, 4) * 0.2}
    return mi.Workload(net, proposal_loss, sgd(net, lr=0.005), 2, data)


@model("torchvision detection", "fcos_resnet18_fpn", "torchvision")
def fcos():
    """Group norms in the heads; centreness beside classes and boxes."""
    detection = load("torchvision").models.detection
    backbone = detection.backbone_utils.resnet_fpn_backbone(
        backbone_name="resnet18", weights=None, trainable_layers=5,
        norm_layer=nn.BatchNorm2d)
    net = Pyramid(backbone, detection.fcos.FCOSHead(256, 1, 5))

    def loss(output, classes, boxes, foreground):
        centre = F.binary_cross_entropy_with_logits(
            output["bbox_ctrness"].squeeze(-1), foreground, weight=foreground)
        return focal_loss(output, classes, boxes, foreground) + centre

    made = detector(net)
    made.loss = loss
    return made


