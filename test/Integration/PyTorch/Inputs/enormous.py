# A model with a tensor of more elements than the dialect takes.

import torch
import torch.nn as nn
import torch.nn.functional as F

import mpcomm_import as mi


class Cube(nn.Module):
    def __init__(self, inplace):
        super().__init__()
        self.inplace = inplace

    def forward(self, x):
        x = F.relu(x * 2.0, self.inplace)
        y = x[:, :, None, None].expand(-1, -1, 2**24, 2**24)
        return x + (y * torch.arange(2**24)).sum((2, 3))


class Net(nn.Module):
    def __init__(self, inplace):
        super().__init__()
        self.linear, self.cube = nn.Linear(4, 4), Cube(inplace)

    def forward(self, x):
        return self.cube(self.linear(x))


def workload(inplace=False):
    net = Net(inplace)
    return mi.Workload(net, F.cross_entropy, torch.optim.SGD(net.parameters(), lr=0.1), 2,
                       {"x": torch.randn(4, 4), "y": torch.randint(0, 4, (4,))})
