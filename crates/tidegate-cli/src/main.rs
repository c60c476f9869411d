//! `tidegate`: try rate limits on real traffic before you set them.

fn main() {
    println!("tidegate {}", env!("CARGO_PKG_VERSION"));
}
