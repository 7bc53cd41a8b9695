"""`scons bench`: the cost of the compiler, beside a calibration of the machine in the same run."""
