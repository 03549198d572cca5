//! The files of `kernelspecs/python3`, compiled in.

include!(concat!(env!("OUT_DIR"), "/kernelspec.rs"));
