//! Where memory lies on the boards that QEMU plays, for the linker scripts of `cortex-m-rt` and `riscv-rt`.

use std::{env, fs, path::PathBuf};

fn main() {
    let target = env::var("TARGET").expect("cargo sets TARGET");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let arm = &["link.x"][..];
    // The name, kilohertz of the timer, memory, linker scripts.
    let (board, khz, memory, scripts) = match target.split('-').next() {
        // nRF51822
        Some("thumbv6m") => ("Cortex-M0, microbit", 16_000, cortex("256K", "16K"), arm),
        Some("thumbv7m") => ("Cortex-M3, lm3s6965evb", 12_500, cortex("256K", "64K"), arm),
        Some("thumbv7em") => ("Cortex-M4, mps2-an386", 25_000, cortex("4M", "4M"), arm),
        Some(core) => {
            let scripts = &["memory.x", "link.x"][..];
            let name = if core == "riscv32imac" {
                "RV32IMAC, virt"
            } else {
                "RV32IMC, virt"
            };
            (name, 10_000, RISCV_VIRT.to_owned(), scripts)
        }
        None => panic!("no such board: {target}"),
    };
    println!("cargo:rustc-env=BOARD={board}");
    println!("cargo:rustc-env=BOARD_KHZ={khz}");
    fs::write(out.join("memory.x"), memory).expect("OUT_DIR can be written to");
    println!("cargo:rustc-link-search={}", out.display());
    for script in scripts {
        println!("cargo:rustc-link-arg-bins=-T{script}");
    }
    println!("cargo:rerun-if-changed=build.rs");
}

fn cortex(flash: &str, ram: &str) -> String {
    format!(
        "MEMORY {{
  FLASH : ORIGIN = 0x00000000, LENGTH = {flash}
  RAM : ORIGIN = 0x20000000, LENGTH = {ram}
}}
"
    )
}

/// It has RAM only, into which QEMU loads the image; the first half stands for flash.
const RISCV_VIRT: &str = "MEMORY {
  FLASH : ORIGIN = 0x80000000, LENGTH = 1M
  RAM : ORIGIN = 0x80100000, LENGTH = 1M
}
REGION_ALIAS(\"REGION_TEXT\", FLASH);
REGION_ALIAS(\"REGION_RODATA\", FLASH);
REGION_ALIAS(\"REGION_DATA\", RAM);
REGION_ALIAS(\"REGION_BSS\", RAM);
REGION_ALIAS(\"REGION_HEAP\", RAM);
REGION_ALIAS(\"REGION_STACK\", RAM);
";
