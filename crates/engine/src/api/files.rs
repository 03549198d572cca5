//! The files of a session.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::access::Object;
use himalia_model::{Action, EngineError, FileError, KernelId, Principal};
use himalia_provisioner::Enforcement;
use himalia_session::{
    ByteRange, FileDownload, FileListing, FileUpload, ListedFile, MAX_TRANSFER_BYTES, Process, RemovedFiles,
    Transfer, not_done,
};
use himalia_shim_protocol::{FileEntry, FileTask, RunProcess, StreamTask};

use super::Commands;

/// Most bytes of a listing.
const LISTING_BYTES: usize = 32 << 20;

/// Errors beside the usual ones: [`EngineError::Files`]; [`EngineError::KernelDead`] for a sandbox that is gone. Paths are relative to the session's work directory.
impl Commands {
    pub(crate) async fn read_file(
        &self,
        principal: &Principal,
        kernel: KernelId,
        path: &str,
        range: Option<ByteRange>,
    ) -> Result<FileDownload, EngineError> {
        self.allow(principal, Action::Read, Object::Kernel(kernel))?;
        let path = path.to_owned();
        let transfer = self
            .transfer(principal, kernel, FileTask::Get { path, range })
            .await?;
        FileDownload::file(transfer).await
    }

    pub(crate) async fn write_file(
        &self,
        principal: &Principal,
        kernel: KernelId,
        path: &str,
        metadata: BTreeMap<String, String>,
    ) -> Result<FileUpload, EngineError> {
        let path = path.to_owned();
        self.upload(principal, kernel, |max_bytes| FileTask::Put {
            path,
            max_bytes,
            metadata,
        })
        .await
    }

    pub(crate) async fn list_files(
        &self,
        principal: &Principal,
        kernel: KernelId,
        path: &str,
        depth: u32,
        limit: u32,
        after: Option<&str>,
    ) -> Result<FileListing, EngineError> {
        self.allow(principal, Action::Read, Object::Kernel(kernel))?;
        let task = FileTask::List {
            path: path.to_owned(),
            depth,
            limit,
            after: after.map(str::to_owned),
        };
        let mut transfer = self.transfer(principal, kernel, task).await?;
        let (body, done) = transfer.collect(LISTING_BYTES).await?;
        let entries = serde_json::from_slice::<Vec<FileEntry>>(&body);
        let entries = entries.map_err(|error| EngineError::Files {
            code: FileError::Failed,
            reason: format!("the sandbox sent no listing: {error}"),
        })?;
        Ok(FileListing::new(entries, &done))
    }

    pub(crate) async fn delete_file(
        &self,
        principal: &Principal,
        kernel: KernelId,
        path: &str,
        recursive: bool,
    ) -> Result<RemovedFiles, EngineError> {
        self.allow(principal, Action::Execute, Object::Kernel(kernel))?;
        let path = path.to_owned();
        let mut transfer = self
            .transfer(principal, kernel, FileTask::Delete { path, recursive })
            .await?;
        let (_, done) = transfer.collect(0).await?;
        Ok(RemovedFiles {
            entries: done.entries,
        })
    }

    pub(crate) async fn read_archive(
        &self,
        principal: &Principal,
        kernel: KernelId,
        path: &str,
    ) -> Result<FileDownload, EngineError> {
        self.allow(principal, Action::Read, Object::Kernel(kernel))?;
        let (path, max_bytes) = (path.to_owned(), MAX_TRANSFER_BYTES);
        let transfer = self
            .transfer(principal, kernel, FileTask::Pack { path, max_bytes })
            .await?;
        FileDownload::archive(transfer).await
    }

    pub(crate) async fn write_archive(
        &self,
        principal: &Principal,
        kernel: KernelId,
        path: &str,
    ) -> Result<FileUpload, EngineError> {
        let path = path.to_owned();
        self.upload(principal, kernel, |max_bytes| FileTask::Unpack {
            path,
            max_bytes,
        })
        .await
    }

    pub(crate) async fn stat_file(
        &self,
        principal: &Principal,
        kernel: KernelId,
        path: &str,
    ) -> Result<ListedFile, EngineError> {
        self.allow(principal, Action::Read, Object::Kernel(kernel))?;
        let path = path.to_owned();
        let mut transfer = self.transfer(principal, kernel, FileTask::Stat { path }).await?;
        let (body, _) = transfer.collect(LISTING_BYTES).await?;
        let entries: Vec<FileEntry> = serde_json::from_slice(&body).unwrap_or_default();
        let entry = entries.into_iter().next();
        entry.map(ListedFile::from).ok_or_else(|| EngineError::Files {
            code: FileError::Failed,
            reason: "the sandbox did not report its type".to_owned(),
        })
    }

    pub(crate) async fn make_directory(
        &self,
        principal: &Principal,
        kernel: KernelId,
        path: &str,
    ) -> Result<bool, EngineError> {
        self.allow(principal, Action::Execute, Object::Kernel(kernel))?;
        let path = path.to_owned();
        let mut transfer = self
            .transfer(principal, kernel, FileTask::MakeDir { path })
            .await?;
        let (_, done) = transfer.collect(0).await?;
        Ok(done.created)
    }

    pub(crate) async fn move_file(
        &self,
        principal: &Principal,
        kernel: KernelId,
        from: &str,
        to: &str,
    ) -> Result<(), EngineError> {
        self.allow(principal, Action::Execute, Object::Kernel(kernel))?;
        let (from, to) = (from.to_owned(), to.to_owned());
        let mut transfer = self
            .transfer(principal, kernel, FileTask::Move { from, to })
            .await?;
        transfer.collect(0).await.map(drop)
    }

    pub(crate) async fn start_process(
        &self,
        principal: &Principal,
        kernel: KernelId,
        wanted: RunProcess,
    ) -> Result<Process, EngineError> {
        self.allow(principal, Action::Execute, Object::Kernel(kernel))?;
        self.inner.check_open()?;
        let handle = self.with_sandbox(principal, kernel).await?;
        self.inner.start_process(&handle, wanted).await
    }

    /// Begins to write, as much as there is room for.
    async fn upload(
        &self,
        principal: &Principal,
        kernel: KernelId,
        task: impl FnOnce(u64) -> FileTask,
    ) -> Result<FileUpload, EngineError> {
        self.allow(principal, Action::Execute, Object::Kernel(kernel))?;
        let (max_bytes, by_quota) = self.file_room(principal, kernel).await?;
        let transfer = self.transfer(principal, kernel, task(max_bytes)).await?;
        Ok(FileUpload::new(transfer, by_quota))
    }

    /// How many bytes may be written, and whether a quota has the say. Where the quota is hard the disk says so itself.
    async fn file_room(&self, principal: &Principal, kernel: KernelId) -> Result<(u64, bool), EngineError> {
        let handle = self.with_sandbox(principal, kernel).await?;
        if handle.session().sandbox.enforcement.disk != Enforcement::Watched {
            return Ok((MAX_TRANSFER_BYTES, false));
        }
        let lease = &handle.lease();
        let found = match lease.provisioner().disk_use(lease.id()).await {
            Ok(Some(found)) => found,
            Ok(None) => return Ok((MAX_TRANSFER_BYTES, false)),
            Err(error) => return Err(not_done(lease.id(), "cannot measure a session's files", &error)),
        };
        let room = found.limit_bytes.saturating_sub(found.used_bytes);
        if found.is_over() || room == 0 {
            return Err(EngineError::Files {
                code: FileError::Quota,
                reason: format!(
                    "the files of this session take {} bytes, the limit is {}",
                    found.used_bytes, found.limit_bytes
                ),
            });
        }
        Ok((room.min(MAX_TRANSFER_BYTES), room < MAX_TRANSFER_BYTES))
    }

    /// Has the sandbox open a stream for a task.
    async fn transfer(
        &self,
        principal: &Principal,
        kernel: KernelId,
        task: FileTask,
    ) -> Result<Transfer, EngineError> {
        self.inner.check_open()?;
        if self.absolute_paths && task.paths().iter().any(|path| path.starts_with('/')) {
            self.allow(principal, Action::Execute, Object::Kernel(kernel))?;
        }
        let handle = self.with_sandbox(principal, kernel).await?;
        let permit = Arc::clone(handle.lease().transfers()).try_acquire_owned();
        let permit = permit.map_err(|_| EngineError::Files {
            code: FileError::TooMany,
            reason: "as many transfers as may be are under way in this sandbox".to_owned(),
        })?;
        let stream = self
            .inner
            .open_stream(&handle, StreamTask::File(task), self.absolute_paths)
            .await?;
        Ok(Transfer::new(stream, permit))
    }
}
