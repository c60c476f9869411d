#![no_std]
#![no_main]

tidegate_firmware::image!(tidegate_firmware::subjects::sliding_window);
