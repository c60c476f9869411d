//! `tidegate`: try rate limits on real traffic before you set them.

// A program for machines with an operating system has no use for `alloc` by that name.
#![allow(clippy::std_instead_of_alloc)]

mod args;
#[cfg(feature = "serve")]
mod drive;
mod key;
mod log;
mod plot;
mod policy;
mod replay;
mod report;
mod run;
mod sample;
#[cfg(feature = "serve")]
mod serve;
mod simulate;
mod sizing;
mod timeline;

use std::io;
use std::process::ExitCode;

use anyhow::Error;
use clap::Parser;

use args::{Cli, Command};

/// Bad usage or bad input.
const BAD: u8 = 2;

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Replay(args) => run::replay(&args),
        Command::Simulate(args) => simulate::run(&args).map(|()| ExitCode::SUCCESS),
        #[cfg(feature = "serve")]
        Command::Serve(args) => serve::run(&args),
        #[cfg(feature = "serve")]
        Command::Drive(args) => drive::run(&args),
        Command::Sample(args) => sample::print(&args).map(|()| ExitCode::SUCCESS),
    };
    match result {
        Ok(status) => status,
        // Whoever read our output has seen enough.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(BAD)
        }
    }
}

fn is_broken_pipe(error: &Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
