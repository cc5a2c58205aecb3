# torchvision's vision transformer as it is, against PyTorch in f64.
#
# REQUIRES: torch, torchvision
# RUN: %python %s

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
import checks
import torch
import torch.nn.functional as F
from torchvision.models import VisionTransformer

import mpcomm_import as mi

torch.manual_seed(0)
model = VisionTransformer(image_size=16, patch_size=4, num_layers=2, num_heads=4,
                          hidden_dim=32, mlp_dim=64, num_classes=10)
torch.nn.init.normal_(model.heads.head.weight, std=0.1)
data = {"x": torch.randn(12, 3, 16, 16), "y": torch.randint(0, 10, (12,))}
program = checks.check(mi.Workload(model, F.cross_entropy,
                                   torch.optim.AdamW(model.parameters()), 4, data,
                                   name="vit"))
assert checks.count(program, "transpose") == {"transpose": 9}
