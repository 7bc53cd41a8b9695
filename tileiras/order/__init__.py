"""The order of floating-point sums: which of them a kernel's outputs are made of, in which order each is taken, whether
results are the same from run to run, and on which quantities of a launch they depend.

`flow` finds on nv_tileaa what each value is made of, `addresses` whether an element's place in memory says from where
it was computed, `outputs` what holds of the memory that a kernel writes.  `lowered` finds in the nv_tileas that is made
of it in which order each sum is taken.  `certificate` has both, as a function of nv_tileas, LLVM IR and NAME.json carry
it.
"""
