//! NATS: a key-value bucket in files, put and watch.

use std::{fs, path::Path, process::Stdio};

use async_nats::jetstream::{self, kv, stream::StorageType};
use async_trait::async_trait;
use futures_util::{FutureExt as _, StreamExt as _, future::LocalBoxFuture};

use super::{
    Peer, Watch,
    server::{Program, Server, flag, free_address},
};
use crate::Result;

/// Values kept of a key, the most that NATS allows: what is overwritten before a watcher gets it is
/// lost to the watcher.
const HISTORY: i64 = 64;

struct Nats {
    server: Server,
    bucket: kv::Store,
}

pub(super) fn start<'a>(
    program: &'a Program,
    folder: &'a Path,
) -> LocalBoxFuture<'a, Result<Box<dyn Peer>>> {
    async move {
        let address = free_address()?;
        let store = folder.join("nats");
        let config = folder.join("nats.conf");
        // `always`: an answer means that the message was synced, as with the others.
        let settings = format!(
            "listen: \"{address}\"\njetstream {{ store_dir: \"{}\", sync_interval: always }}\n",
            store.display()
        );
        fs::write(&config, settings)?;
        let mut command = program.command();
        command.arg(flag("--config", &config)).stdout(Stdio::null());
        let mut server = Server::start(command, folder)?;
        let ask = || async { async_nats::connect(address.to_string()).await.ok() };
        let client = server.until_ready(ask).await?;
        let config = kv::Config {
            bucket: "bench".to_owned(),
            history: HISTORY,
            storage: StorageType::File,
            num_replicas: 1,
            ..kv::Config::default()
        };
        let bucket = jetstream::new(client).create_key_value(config).await?;
        Ok(Box::new(Nats { server, bucket }) as Box<dyn Peer>)
    }
    .boxed_local()
}

#[async_trait]
impl Peer for Nats {
    fn server(&self) -> &Server {
        &self.server
    }

    async fn put(&self, task: u32, message: String) -> Result<()> {
        self.bucket.put(task.to_string(), message.into()).await?;
        Ok(())
    }

    async fn watch(&self) -> Result<Watch> {
        let entries = self.bucket.watch_all().await?;
        Ok(entries.map(|entry| Ok(entry?.value)).boxed())
    }
}
