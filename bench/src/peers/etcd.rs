//! etcd: a cluster of one, put and watch.

use std::{path::Path, process::Stdio};

use async_trait::async_trait;
use bytes::Bytes;
use etcd_client::{Client, Event, WatchOptions};
use futures_util::{FutureExt as _, StreamExt as _, future::LocalBoxFuture, stream};

use super::{
    Peer, Watch,
    server::{Program, Server, flag, free_address},
};
use crate::Result;

const PREFIX: &str = "bench/";

struct Etcd {
    server: Server,
    client: Client,
}

pub(super) fn start<'a>(
    program: &'a Program,
    folder: &'a Path,
) -> LocalBoxFuture<'a, Result<Box<dyn Peer>>> {
    async move {
        let clients = format!("http://{}", free_address()?);
        let members = format!("http://{}", free_address()?);
        let mut command = program.command();
        command.arg(flag("--data-dir", folder.join("etcd")));
        command.arg(flag("--listen-client-urls", &clients));
        command.arg(flag("--advertise-client-urls", &clients));
        command.arg(flag("--listen-peer-urls", &members));
        command.arg(flag("--initial-advertise-peer-urls", &members));
        command.arg(flag("--initial-cluster", format!("default={members}")));
        command.stdout(Stdio::null());
        let mut server = Server::start(command, folder)?;
        let ask = || async {
            let mut client = Client::connect([&clients], None).await.ok()?;
            client.get("health", None).await.ok()?;
            Some(client)
        };
        let client = server.until_ready(ask).await?;
        Ok(Box::new(Etcd { server, client }) as Box<dyn Peer>)
    }
    .boxed_local()
}

#[async_trait]
impl Peer for Etcd {
    fn server(&self) -> &Server {
        &self.server
    }

    async fn put(&self, task: u32, message: String) -> Result<()> {
        self.client.kv_client().put(format!("{PREFIX}{task}"), message, None).await?;
        Ok(())
    }

    async fn watch(&self) -> Result<Watch> {
        let options = WatchOptions::new().with_prefix();
        let mut watch = self.client.watch_client().watch(PREFIX, Some(options)).await?;
        let created = watch.next().await.ok_or("a watch ended")??;
        if !created.created() {
            return Err("a watch began with an event".into());
        }
        let messages = watch.flat_map(|response| {
            let messages = match response {
                Ok(response) => response.events().iter().map(message).collect(),
                Err(error) => vec![Err(error.into())],
            };
            stream::iter(messages)
        });
        Ok(messages.boxed())
    }
}

fn message(event: &Event) -> Result<Bytes> {
    let kv = event.kv().ok_or("an event without a value")?;
    Ok(Bytes::copy_from_slice(kv.value()))
}
