//! Embeds the Python side of a kernel (the lock file, the kernelspec and the package `himalia_kernel`), and the viewer as far as it
//! is built.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let crate_dir = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let source = crate_dir.join("../../kernelspecs/python3").canonicalize()?;
    let mut files = Vec::new();
    collect(&source.join("himalia_kernel"), "himalia_kernel", &mut files)?;
    files.push(("sitecustomize.py".to_owned(), source.join("sitecustomize.py")));
    files.sort();

    let mut out = String::from("/// Path below the place it is installed in, and content; sorted.\n");
    out.push_str("pub(crate) static PACKAGE: &[(&str, &[u8])] = &[\n");
    for (name, path) in &files {
        let path = path.display().to_string();
        println!("cargo::rerun-if-changed={path}");
        let _ = writeln!(out, "    ({name:?}, include_bytes!({path:?})),");
    }
    out.push_str("];\n");
    for (constant, name) in [("LOCK", "requirements.lock"), ("KERNEL_JSON", "kernel.json")] {
        let path = source.join(name).display().to_string();
        println!("cargo::rerun-if-changed={path}");
        let _ = writeln!(
            out,
            "/// `{name}`.\npub(crate) static {constant}: &[u8] = include_bytes!({path:?});"
        );
    }
    let target = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    fs::write(target.join("kernelspec.rs"), out)?;
    fs::write(
        target.join("viewer.rs"),
        viewer(&crate_dir.join("../../web/dist"))?,
    )
}

/// The files of the built viewer, each in its compressed forms. Where `make web` has not run there are none, and nothing here needs
/// Node.
fn viewer(dist: &Path) -> io::Result<String> {
    // `web/dist` is there in every checkout, so that this is not run again without a reason.
    println!("cargo::rerun-if-changed={}", dist.display());
    let mut files = Vec::new();
    if dist.is_dir() {
        compressed(&dist.canonicalize()?, "", &mut files)?;
    }
    files.sort();
    let mut out = String::from("/// Sorted by path; empty where the viewer is not built.\n");
    out.push_str("pub(crate) static FILES: &[ViewerFile] = &[\n");
    for (name, path) in &files {
        let form = |extension: &str| format!("{}.{extension}", path.display());
        let _ = writeln!(
            out,
            "    ViewerFile {{ path: {name:?}, brotli: include_bytes!({:?}), gzip: include_bytes!({:?}) }},",
            form("br"),
            form("gz"),
        );
    }
    out.push_str("];\n");
    Ok(out)
}

/// Every file below `dir` that has both compressed forms beside it, with its path from `dist`.
fn compressed(dir: &Path, prefix: &str, files: &mut Vec<(String, PathBuf)>) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
            continue;
        };
        let name = format!("{prefix}{name}");
        if path.is_dir() {
            compressed(&path, &format!("{name}/"), files)?;
        } else if ["br", "gz"]
            .iter()
            .all(|form| Path::new(&format!("{}.{form}", path.display())).is_file())
        {
            files.push((name, path));
        }
    }
    Ok(())
}

/// Every source file below `dir`, with its path from there.
fn collect(dir: &Path, prefix: &str, files: &mut Vec<(String, PathBuf)>) -> io::Result<()> {
    println!("cargo::rerun-if-changed={}", dir.display());
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let (path, name) = (entry.path(), entry.file_name());
        let Some(name) = name.to_str() else { continue };
        let name = format!("{prefix}/{name}");
        if entry.file_type()?.is_dir() {
            if !name.ends_with("/__pycache__") {
                collect(&path, &name, files)?;
            }
        } else if path.extension().is_some_and(|ext| ext == "py") {
            files.push((name, path));
        }
    }
    Ok(())
}
