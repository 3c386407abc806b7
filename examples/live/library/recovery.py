"""A library of one object: the loss recovery of Code 2.2."""

from quicksilver.live.components.infrastructure.loss_recovery import LossRecovery

__all__ = ["LossRecovery"]
