// RUN: tileiras-opt %s --split-input-file --verify-diagnostics

#file = #cuda_tile.di_file<"k.py" in "">
#unit = #cuda_tile.di_compile_unit<file = #file>
#k = #cuda_tile.di_subprogram<file = #file, line = 1, name = "k", linkageName = "k", compileUnit = #unit>
#int = #debuginfo.di_basic_type<"int", 32, signed>
// expected-error @below {{line must be between 0 and 4294967295, got -1}}
#x = #debuginfo.di_local_variable<"x" in #k, line = -1>
module attributes {x = #x} {
}

// -----

#file = #cuda_tile.di_file<"k.py" in "">
#unit = #cuda_tile.di_compile_unit<file = #file>
#k = #cuda_tile.di_subprogram<file = #file, line = 1, name = "k", linkageName = "k", compileUnit = #unit>
#int = #debuginfo.di_basic_type<"int", 32, signed>
// expected-error @below {{line must be between 0 and 4294967295, got 4294967296}}
#x = #debuginfo.di_local_variable<"x" in #k, line = 4294967296>
module attributes {x = #x} {
}

// -----

#file = #cuda_tile.di_file<"k.py" in "">
#unit = #cuda_tile.di_compile_unit<file = #file>
#k = #cuda_tile.di_subprogram<file = #file, line = 1, name = "k", linkageName = "k", compileUnit = #unit>
#int = #debuginfo.di_basic_type<"int", 32, signed>
// expected-error @below {{arg must be between 0 and 65535, got -1}}
#x = #debuginfo.di_local_variable<"x" in #k, line = 1, arg = -1>
module attributes {x = #x} {
}

// -----

#file = #cuda_tile.di_file<"k.py" in "">
#unit = #cuda_tile.di_compile_unit<file = #file>
#k = #cuda_tile.di_subprogram<file = #file, line = 1, name = "k", linkageName = "k", compileUnit = #unit>
#int = #debuginfo.di_basic_type<"int", 32, signed>
// expected-error @below {{arg must be between 0 and 65535, got 65536}}
#x = #debuginfo.di_local_variable<"x" in #k, line = 1, arg = 65536>
module attributes {x = #x} {
}

// -----

#file = #cuda_tile.di_file<"k.py" in "">
#unit = #cuda_tile.di_compile_unit<file = #file>
#k = #cuda_tile.di_subprogram<file = #file, line = 1, name = "k", linkageName = "k", compileUnit = #unit>
#int = #debuginfo.di_basic_type<"int", 32, signed>
// expected-error @below {{#debuginfo.di_local_variable has parameter 'line' twice}}
#x = #debuginfo.di_local_variable<"x" in #k, line = 1, line = 2>
module attributes {x = #x} {
}

// -----

#file = #cuda_tile.di_file<"k.py" in "">
#unit = #cuda_tile.di_compile_unit<file = #file>
#k = #cuda_tile.di_subprogram<file = #file, line = 1, name = "k", linkageName = "k", compileUnit = #unit>
#int = #debuginfo.di_basic_type<"int", 32, signed>
// expected-error @below {{#debuginfo.di_local_variable has no parameter 'column'}}
#x = #debuginfo.di_local_variable<"x" in #k, line = 1, column = 2>
module attributes {x = #x} {
}

// -----

#file = #cuda_tile.di_file<"k.py" in "">
#unit = #cuda_tile.di_compile_unit<file = #file>
#k = #cuda_tile.di_subprogram<file = #file, line = 1, name = "k", linkageName = "k", compileUnit = #unit>
#int = #debuginfo.di_basic_type<"int", 32, signed>
// expected-error @below {{missing required parameter: line}}
#x = #debuginfo.di_local_variable<"x" in #k, arg = 1>
module attributes {x = #x} {
}

// -----

#file = #cuda_tile.di_file<"k.py" in "">
#unit = #cuda_tile.di_compile_unit<file = #file>
#k = #cuda_tile.di_subprogram<file = #file, line = 1, name = "k", linkageName = "k", compileUnit = #unit>
#int = #debuginfo.di_basic_type<"int", 32, signed>
// expected-error @below {{expected a debug type, got }}
#x = #debuginfo.di_local_variable<"x" in #k, line = 1, type = #file>
module attributes {x = #x} {
}

// -----

#file = #cuda_tile.di_file<"k.py" in "">
#unit = #cuda_tile.di_compile_unit<file = #file>
#k = #cuda_tile.di_subprogram<file = #file, line = 1, name = "k", linkageName = "k", compileUnit = #unit>
#int = #debuginfo.di_basic_type<"int", 32, signed>
// expected-error @below {{expected a debug scope, got }}
#x = #debuginfo.di_local_variable<"x" in #file, line = 1>
module attributes {x = #x} {
}

// -----

#file = #cuda_tile.di_file<"k.py" in "">
#unit = #cuda_tile.di_compile_unit<file = #file>
#k = #cuda_tile.di_subprogram<file = #file, line = 1, name = "k", linkageName = "k", compileUnit = #unit>
#int = #debuginfo.di_basic_type<"int", 32, signed>
// expected-error @below {{size must be between 0 and 4294967295, got -32}}
#x = #debuginfo.di_basic_type<"int", -32, signed>
module attributes {x = #x} {
}

// -----

#file = #cuda_tile.di_file<"k.py" in "">
#unit = #cuda_tile.di_compile_unit<file = #file>
#k = #cuda_tile.di_subprogram<file = #file, line = 1, name = "k", linkageName = "k", compileUnit = #unit>
#int = #debuginfo.di_basic_type<"int", 32, signed>
// expected-error @below {{count must be between 0 and 4294967295, got -1}}
#x = #debuginfo.di_array_type<#int, -1>
module attributes {x = #x} {
}

// -----

#file = #cuda_tile.di_file<"k.py" in "">
#unit = #cuda_tile.di_compile_unit<file = #file>
#k = #cuda_tile.di_subprogram<file = #file, line = 1, name = "k", linkageName = "k", compileUnit = #unit>
#int = #debuginfo.di_basic_type<"int", 32, signed>
#at = #cuda_tile.di_loc<loc("k.py":4:1) in #k>
#x = #debuginfo.di_local_variable<"x" in #k, line = 1, type = #int>
module {
  llvm.func @k(%i: i32) {
    // expected-error @below {{expects a fragment [offset, size] that is a part of the 32 bits of the variable, got [16, 32]}}
    llvm.intr.dbg.value #x fragment [16, 32] = %i : i32
    llvm.return
  }
}

// -----

#file = #cuda_tile.di_file<"k.py" in "">
#unit = #cuda_tile.di_compile_unit<file = #file>
#k = #cuda_tile.di_subprogram<file = #file, line = 1, name = "k", linkageName = "k", compileUnit = #unit>
#int = #debuginfo.di_basic_type<"int", 32, signed>
#at = #cuda_tile.di_loc<loc("k.py":4:1) in #k>
#x = #debuginfo.di_local_variable<"x" in #k, line = 1, type = #int>
module {
  llvm.func @k(%i: i32) {
    // expected-error @below {{expects a fragment [offset, size] that is a part of the 32 bits of the variable, got [0, 32]}}
    llvm.intr.dbg.value #x fragment [0, 32] = %i : i32
    llvm.return
  }
}

// -----

#file = #cuda_tile.di_file<"k.py" in "">
#unit = #cuda_tile.di_compile_unit<file = #file>
#k = #cuda_tile.di_subprogram<file = #file, line = 1, name = "k", linkageName = "k", compileUnit = #unit>
#int = #debuginfo.di_basic_type<"int", 32, signed>
#at = #cuda_tile.di_loc<loc("k.py":4:1) in #k>
#x = #debuginfo.di_local_variable<"x" in #k, line = 1, type = #int>
module {
  llvm.func @k(%i: i32) {
    // expected-error @below {{expects a fragment [offset, size] that is a part of the 32 bits of the variable, got [-16, 8]}}
    llvm.intr.dbg.value #x fragment [-16, 8] = %i : i32
    llvm.return
  }
}

// -----

#file = #cuda_tile.di_file<"k.py" in "">
#unit = #cuda_tile.di_compile_unit<file = #file>
#k = #cuda_tile.di_subprogram<file = #file, line = 1, name = "k", linkageName = "k", compileUnit = #unit>
#int = #debuginfo.di_basic_type<"int", 32, signed>
#at = #cuda_tile.di_loc<loc("k.py":4:1) in #k>
#x = #debuginfo.di_local_variable<"x" in #k, line = 1, type = #int>
module {
  llvm.func @k(%i: i32) {
    // expected-error @below {{expects a fragment [offset, size] that is a part of the 32 bits of the variable, got [0, 0]}}
    llvm.intr.dbg.value #x fragment [0, 0] = %i : i32
    llvm.return
  }
}

// -----

#file = #cuda_tile.di_file<"k.py" in "">
#unit = #cuda_tile.di_compile_unit<file = #file>
#k = #cuda_tile.di_subprogram<file = #file, line = 1, name = "k", linkageName = "k", compileUnit = #unit>
#int = #debuginfo.di_basic_type<"int", 32, signed>
#at = #cuda_tile.di_loc<loc("k.py":4:1) in #k>
#x = #debuginfo.di_local_variable<"x" in #k, line = 1, type = #int>
module {
  llvm.func @k(%i: i32) {
    // expected-error @below {{expects a fragment [offset, size] that is a part of the 32 bits of the variable, got [16]}}
    llvm.intr.dbg.value #x fragment [16] = %i : i32
    llvm.return
  }
}

// -----

#file = #cuda_tile.di_file<"k.py" in "">
#unit = #cuda_tile.di_compile_unit<file = #file>
#k = #cuda_tile.di_subprogram<file = #file, line = 1, name = "k", linkageName = "k", compileUnit = #unit>
#int = #debuginfo.di_basic_type<"int", 32, signed>
#at = #cuda_tile.di_loc<loc("k.py":4:1) in #k>
#x = #debuginfo.di_local_variable<"x" in #k, line = 1, type = #int>
module {
  llvm.func @k(%i: i32) {
    // expected-error @below {{expects a fragment [offset, size] that is a part of the 32 bits of the variable, got [1, 2, 3]}}
    llvm.intr.dbg.value #x fragment [1, 2, 3] = %i : i32
    llvm.return
  }
}

// -----

#file = #cuda_tile.di_file<"k.py" in "">
#unit = #cuda_tile.di_compile_unit<file = #file>
#k = #cuda_tile.di_subprogram<file = #file, line = 1, name = "k", linkageName = "k", compileUnit = #unit>
#int = #debuginfo.di_basic_type<"int", 32, signed>
#at = #cuda_tile.di_loc<loc("k.py":4:1) in #k>
#x = #debuginfo.di_local_variable<"x" in #k, line = 1>
module {
  llvm.func @k(%i: i32) {
    // expected-error @below {{expected a variable with a type}}
    llvm.intr.dbg.value #x = %i : i32
    llvm.return
  }
}
