//! One body for every algorithm and word width: a script of calls, played on the algorithm and on an exact
//! model beside it, with the laws checked after every call. The fuzz targets play the same scripts.

#![allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    missing_debug_implementations,
    reason = "each test binary uses a part"
)]

pub mod log_model;
pub mod model;
pub mod script;
pub mod subject;
pub mod table_model;
