"""What is measured on a GPU, against PyTorch: prepared for one run of ten minutes."""
