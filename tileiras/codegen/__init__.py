"""From LLVM IR text to PTX and cubin: target machines, device libraries, LLVM's passes, PTX headers, ptxas."""
