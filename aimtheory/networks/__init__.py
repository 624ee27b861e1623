"""Attention networks compiled into attention-indexed models: unrolled scores, counts, forward pass, composite loss."""

from aimtheory.networks.attention_network import AttentionNetwork as AttentionNetwork
from aimtheory.networks.compilation import CompiledNetwork as CompiledNetwork
from aimtheory.networks.compilation import compile_network as compile_network
from aimtheory.networks.compilation import forward_pass as forward_pass
from aimtheory.networks.network_loss import NetworkLoss as NetworkLoss
from aimtheory.networks.teacher_student import network_loss as network_loss
from aimtheory.networks.teacher_student import teacher_student as teacher_student

__all__ = [
    "AttentionNetwork",
    "CompiledNetwork",
    "NetworkLoss",
    "compile_network",
    "forward_pass",
    "network_loss",
    "teacher_student",
]
