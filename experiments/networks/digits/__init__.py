"""A small convolutional network for the handwritten digits of scikit-learn, trained by `train.py`."""
