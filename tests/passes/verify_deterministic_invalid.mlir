// RUN: tileiras-opt %s --split-input-file --verify-diagnostics --convert-cudatile-to-tileaa=compute-capability=sm_90 --verify-deterministic

builtin.module {
cuda_tile.module @m {
  entry @additions(%p: tile<ptr<f32>>, %q: tile<ptr<i32>>) {
    %x = constant <f32: 1.0> : tile<f32>
    // expected-error@+1 {{argument 0 may differ from run to run: float additions come in the order in which tile blocks}}
    %old, %t = atomic_rmw_tko relaxed device %p, addf, %x : tile<ptr<f32>>, tile<f32> -> tile<f32>, token
    return
  }
}
}

// -----

builtin.module {
cuda_tile.module @m {
  entry @ticket(%p: tile<ptr<i32>>, %q: tile<ptr<i32>>) {
    %one = constant <i32: 1> : tile<i32>
    %block, %y, %z = get_tile_block_id : tile<i32>
    %to = offset %p, %block : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
    // expected-error@+1 {{argument 0 may differ from run to run: it is computed from the old value of an update}}
    %ticket, %t = atomic_rmw_tko relaxed device %q, add, %one : tile<ptr<i32>>, tile<i32> -> tile<i32>, token
    %u = store_ptr_tko weak %to, %ticket : tile<ptr<i32>>, tile<i32> -> token
    return
  }
}
}

// -----

builtin.module {
cuda_tile.module @m {
  entry @exchanges(%p: tile<ptr<i32>>, %q: tile<ptr<i32>>) {
    %one = constant <i32: 1> : tile<i32>
    // expected-error@+1 {{argument 1 is not known to be the same from run to run: the order in which tile blocks arrive}}
    %was, %t = atomic_cas_tko relaxed device %q, %one, %one : tile<ptr<i32>>, tile<i32> -> tile<i32>, token
    // expected-note@+1 {{argument 0 is not known to be the same from run to run: the last exchange remains in memory}}
    %last, %u = atomic_rmw_tko relaxed device %p, xchg, %one : tile<ptr<i32>>, tile<i32> -> tile<i32>, token
    return
  }
}
}

// -----

builtin.module {
cuda_tile.module @m {
  entry @visible(%p: tile<ptr<i32>>) {
    %block, %y, %z = get_tile_block_id : tile<i32>
    %to = offset %p, %block : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
    // expected-error@+1 {{argument 0 is not known to be the same from run to run: it is computed from data of another tile}}
    %seen, %t = load_ptr_tko acquire device %p : tile<ptr<i32>> -> tile<i32>, token
    %u = store_ptr_tko weak %to, %seen token=%t : tile<ptr<i32>>, tile<i32> -> token
    return
  }
}
}
