"""EfficientNet-Lite0 for ImageNet: packaged weights, the architecture in plain torch, photographs."""
