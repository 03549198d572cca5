"""Archives whose bytes depend on their content only: order, times, owners and modes are fixed."""

import gzip
import io
import stat
import tarfile
import time
import zipfile

import project


def tar_gz(target, entries):
    """`entries`: content and mode by path."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path, (content, mode) in sorted(entries.items()):
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode, entry.mtime = len(content), mode, project.seconds()
            archive.addfile(entry, io.BytesIO(content))
    with target.open("wb") as file, gzip.GzipFile("", "wb", 9, file, project.seconds()) as packed:
        packed.write(plain.getvalue())


def zipped(target, entries):
    """The same as a zip."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, (content, mode) in sorted(entries.items()):
            entry = zipfile.ZipInfo(path, time.gmtime(project.seconds())[:6])
            entry.external_attr = (stat.S_IFREG | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)


def below(directory):
    """The files of a directory as entries, without what Python leaves there."""
    paths = (path for path in directory.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {str(path.relative_to(directory)): (path.read_bytes(), 0o644) for path in paths}
