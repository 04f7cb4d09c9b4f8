"""What runs on a workstation: data set, splits, architectures, training, conversion, parity."""
