#![no_std]
#![no_main]

use tidegate_firmware::subjects;

tidegate_firmware::image!({
    let mut table = subjects::owned();
    move |ms, key| subjects::owned_decision(&mut table, ms, key)
});
