//! compile IN GPU OUT: one Tile IR file to a cubin, in this process.
use std::ffi::{c_char, c_int, c_void};
use std::{env, fs, process, ptr, slice};

#[repr(C)]
struct Config {
    input_buffer: *const c_void,
    input_size: usize,
    gpu: c_int,
    opt_level: c_int,
    device_debug: c_int,
    line_info: c_int,
    host_arch: c_int,
    host_os: c_int,
    sanitize: c_int,
    output_file: *const c_char,
    cuda_root: *const c_char,
}

#[repr(C)]
struct Buffer {
    data: *const c_void,
    size: usize,
}

type Handle = *mut c_void;

#[link(name = "tileiras")]
extern "C" {
    fn tileirasProgramCreate(program: *mut Handle, config: *const Config) -> c_int;
    fn tileirasProgramCompile(program: Handle) -> c_int;
    fn tileirasProgramGetOutput(program: Handle, output: *mut Buffer) -> c_int;
    fn tileirasProgramRelease(program: Handle) -> c_int;
}

/// A program of the compiler; calls from several threads at once are allowed.
struct Program(Handle);

unsafe impl Send for Program {}
unsafe impl Sync for Program {}

fn checked(code: c_int) -> Result<(), c_int> {
    if code == 0 { Ok(()) } else { Err(code) }
}

impl Program {
    fn new(input: &[u8], gpu: c_int) -> Result<Program, c_int> {
        let config = Config {
            input_buffer: input.as_ptr().cast(),
            input_size: input.len(),
            gpu,
            opt_level: 3,
            device_debug: 0,
            line_info: 0,
            host_arch: 0,
            host_os: 0,
            sanitize: 0,
            output_file: ptr::null(),
            cuda_root: ptr::null(),
        };
        let mut handle = ptr::null_mut();
        checked(unsafe { tileirasProgramCreate(&mut handle, &config) })?;
        Ok(Program(handle))
    }

    fn compile(&mut self) -> Result<Vec<u8>, c_int> {
        let mut output = Buffer { data: ptr::null(), size: 0 };
        unsafe {
            checked(tileirasProgramCompile(self.0))?;
            checked(tileirasProgramGetOutput(self.0, &mut output))?;
            Ok(slice::from_raw_parts(output.data.cast(), output.size).to_vec())
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        unsafe { tileirasProgramRelease(self.0) };
    }
}

fn main() {
    let words: Vec<String> = env::args().collect();
    if words.len() != 4 {
        eprintln!("usage: compile IN GPU OUT");
        process::exit(1);
    }
    let input = fs::read(&words[1]).expect("the input cannot be read");
    let gpu = words[2].parse().expect("a GPU is a number such as 90");
    match Program::new(&input, gpu).and_then(|mut program| program.compile()) {
        Ok(cubin) => fs::write(&words[3], cubin).expect("the output cannot be written"),
        Err(code) => process::exit(code),
    }
}
