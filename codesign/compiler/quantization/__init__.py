"""Post-training quantization: from an fp32 module to the integer vocabulary."""

from __future__ import annotations

from codesign.compiler.quantization.calibrate import Evaluator, Sample
from codesign.compiler.quantization.config import QuantizationConfig, RangeMethod, Scheme
from codesign.compiler.quantization.post_training import Quantized, quantize
from codesign.compiler.quantization.report import LayerReport, QuantizationReport

__all__ = [
    "Evaluator",
    "LayerReport",
    "QuantizationConfig",
    "QuantizationReport",
    "Quantized",
    "RangeMethod",
    "Sample",
    "Scheme",
    "quantize",
]
