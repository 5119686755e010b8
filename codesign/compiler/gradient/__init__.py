"""Reverse-mode gradients of Relay, written in Relay."""

from __future__ import annotations

from codesign.compiler.gradient.gradient import Mode, gradient

__all__ = ["Mode", "gradient"]
