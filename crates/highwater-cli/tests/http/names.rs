//! Names that look odd are names: they come back as they went in, on every way.

use serde_json::{Value, json};

use super::{client::segment, server::Folder};

/// What each name might be taken for: a path, a key of task and tag, an escape, half of one, a query,
/// a fragment, a plus that is a space, SQL, a dot segment, and text of more than one byte per letter.
const ODD: [&str; 14] = [
    "a/b",
    "/",
    "0-x",
    "%2F",
    "%",
    "%zz",
    "a?b=c&d",
    "a#b",
    "a+b c",
    "'; --",
    "...",
    "ü/ß 日本",
    "🔴",
    "*",
];

#[tokio::test]
async fn odd_names_of_jobs_and_tags_round_trip() {
    let folder = Folder::new();
    let server = folder.serve().await;
    let client = &server.client;
    let longest = "日".repeat(85) + "x";
    let names: Vec<&str> = ODD.into_iter().chain([longest.as_str()]).collect();
    let mut feed = client.events("/v1/events").await;
    feed.expect("snapshot_end").await;
    for name in &names {
        assert_eq!(client.create(name, 1).await["job"], *name);
        assert_eq!(feed.expect("put").await.data["body"]["job"], *name);
        let root = format!("/v1/jobs/{}", segment(name));
        let mut live = client.events(&format!("{root}/events?tag={}", segment(name))).await;
        live.expect("snapshot_end").await;
        let body =
            json!({"status": 3, "event_id": name, "message": name, "payload": {*name: name}});
        let state = client.set(name, 0, name, &body).await["state"].clone();
        for field in ["job", "tag", "event_id", "message"] {
            assert_eq!(state[field], *name);
        }
        assert_eq!(state["payload"], json!({*name: name}));
        assert_eq!(live.expect("put").await.data, state);
        assert_eq!(feed.expect("put").await.data["body"], state);
        let mut replayed = client.events(&format!("{root}/events")).await;
        assert_eq!(replayed.expect("replay").await.data, state);
        let standing = format!("{root}/state?task=0&tag={}", segment(name));
        let standing = client.get(&standing).await.json(200);
        assert_eq!((&standing["tag"], &standing["job"]), (&json!(name), &json!(name)));
        assert_eq!(client.get(&root).await.json(200)["job"], *name);
        let states = client.get(&format!("{root}/states")).await.json(200);
        assert_eq!(states["states"], json!([state]));
    }
    let listed = client.get("/v1/jobs").await.json(200);
    let mut expected = names.clone();
    expected.sort_unstable();
    let listed = listed["jobs"].as_array().unwrap().iter().map(|job| job["job"].as_str().unwrap());
    assert_eq!(listed.collect::<Vec<_>>(), expected, "by name, in bytes");
    for pair in expected.windows(2) {
        let page = format!("/v1/jobs?limit=1&after={}", segment(pair[0]));
        assert_eq!(client.get(&page).await.json(200)["jobs"][0]["job"], pair[1]);
    }
    for name in &names {
        client.delete(&format!("/v1/jobs/{}", segment(name))).await.json(200);
        let deleted = feed.expect("put").await.data;
        assert_eq!(
            (&deleted["kind"], &deleted["body"]["job"]),
            (&json!("job.deleted"), &json!(name))
        );
    }
    let nothing: [Value; 0] = [];
    assert_eq!(client.get("/v1/jobs").await.json(200)["jobs"], json!(nothing));
}
