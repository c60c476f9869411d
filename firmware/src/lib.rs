//! What the images share: the boards, and the cases.

#![no_std]

pub mod board;
pub mod cases;
pub mod subjects;
