"""`scons bench`: what the compiler costs, beside a calibration of the machine in the same run."""
