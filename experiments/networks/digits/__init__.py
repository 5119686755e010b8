"""A small convolutional network for the digits of scikit-learn, trained by `train.py`."""
