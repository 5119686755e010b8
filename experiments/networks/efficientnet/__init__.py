"""EfficientNet-Lite0 for ImageNet: packaged weights, architecture in torch, photographs."""
