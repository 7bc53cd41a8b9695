// RUN: tileiras %s --gpu-name sm_90 --emit ptx -o - | FileCheck %s

// Public memory has a name for the host, which may have written it; private memory may have been written by the other
// entries of the file. Only what is private and constant is known.
// CHECK: .visible .global .align 128 .b8 public[8]
// CHECK: .visible .global .align 2 .b8 table[4]
// CHECK: {{^}}.global .align 4 .b8 state[4]
// CHECK-NOT: known
// CHECK-LABEL: .entry writes
// CHECK: st.global.b32
// CHECK-LABEL: .entry reads
// CHECK-DAG: ld.global.b32 {{.*}}, [public]
// CHECK-DAG: ld.global.b16 {{.*}}, [table]
// CHECK-DAG: ld.global.b32 {{.*}}, [state]

cuda_tile.module @m {
  global @public alignment = 128 <f32: [0.5, 0.25]> : tile<2xf32>
  global constant @table <i16: [42, 43]> : tile<2xi16>
  global private @state <i32: [42]> : tile<1xi32>
  global private constant @known <f32: [7.0, 8.0]> : tile<2xf32>
  entry @writes(%q: tile<ptr<f32>>) {
    %p = get_global @public : tile<ptr<f32>>
    %c = get_global @table : tile<ptr<i16>>
    %s = get_global @state : tile<ptr<i32>>
    %one = constant <i32: 1> : tile<i32>
    %t = store_ptr_tko weak %s, %one : tile<ptr<i32>>, tile<i32> -> token
    %x, %t0 = load_ptr_tko weak %p : tile<ptr<f32>> -> tile<f32>, token
    %z, %t1 = load_ptr_tko weak %c : tile<ptr<i16>> -> tile<i16>, token
    %f = itof %z signed : tile<i16> -> tile<f32>
    %sum = addf %x, %f : tile<f32>
    %t2 = store_ptr_tko weak %q, %sum : tile<ptr<f32>>, tile<f32> -> token
    return
  }
  entry @reads(%q: tile<ptr<f32>>) {
    %p = get_global @public : tile<ptr<f32>>
    %c = get_global @table : tile<ptr<i16>>
    %s = get_global @state : tile<ptr<i32>>
    %k = get_global @known : tile<ptr<f32>>
    %x, %t0 = load_ptr_tko weak %p : tile<ptr<f32>> -> tile<f32>, token
    %y, %t1 = load_ptr_tko weak %s : tile<ptr<i32>> -> tile<i32>, token
    %z, %t2 = load_ptr_tko weak %c : tile<ptr<i16>> -> tile<i16>, token
    %w, %t3 = load_ptr_tko weak %k : tile<ptr<f32>> -> tile<f32>, token
    %yf = itof %y signed : tile<i32> -> tile<f32>
    %zf = itof %z signed : tile<i16> -> tile<f32>
    %a = addf %x, %yf : tile<f32>
    %b = addf %a, %zf : tile<f32>
    %d = addf %b, %w : tile<f32>
    %t4 = store_ptr_tko weak %q, %d : tile<ptr<f32>>, tile<f32> -> token
    return
  }
}
