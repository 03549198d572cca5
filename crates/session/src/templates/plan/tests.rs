use himalia_model::{SessionId, TreeLimits};
use himalia_provisioner::ProvisionerKind;

use super::*;
use crate::testing::StubProvisioner;

struct TestOffer {
    provisioners: Provisioners,
    config: EngineConfig,
}

fn place(levels: &[Isolation]) -> TestOffer {
    let stub = |level: &Isolation| -> Arc<dyn Provisioner> { Arc::new(StubProvisioner::new(*level)) };
    let mut config = EngineConfig::new("/nowhere");
    config.images = vec!["known".to_owned()];
    config.networks = vec!["net".to_owned()];
    TestOffer {
        provisioners: Provisioners::new(levels.iter().map(stub).collect()),
        config,
    }
}

impl TestOffer {
    fn plan(&self, template: &Template, start: &StartSession) -> Result<Plan, EngineError> {
        let offer = Offer {
            provisioners: &self.provisioners,
            config: &self.config,
        };
        let chosen = ChosenTemplate {
            name: "t".to_owned(),
            template: template.clone(),
            spec: KernelSpec {
                name: "python3".to_owned(),
                spec: himalia_model::KernelJson::default(),
                resources: BTreeMap::new(),
                dir: "/specs/python3".into(),
                problem: None,
            },
        };
        plan(offer, chosen, start, Some("operator"))
    }

    fn level(&self, template: &Template, start: &StartSession) -> Isolation {
        let plan = self.plan(template, start).unwrap();
        plan.provisioner.capabilities().isolation
    }

    fn refusal(&self, start: &StartSession) -> (&'static str, &'static str) {
        match self.plan(&Template::default(), start).unwrap_err() {
            EngineError::NotOffered { code, field, .. } => (code.as_str(), field),
            other => panic!("{other}"),
        }
    }
}

fn image(name: &str) -> StartSession {
    StartSession {
        image: Some(name.to_owned()),
        ..StartSession::default()
    }
}

fn network(name: &str) -> StartSession {
    StartSession {
        network: Some(Network::Open(name.to_owned())),
        ..StartSession::default()
    }
}

fn level(isolation: Isolation) -> StartSession {
    StartSession {
        isolation: Some(isolation),
        ..StartSession::default()
    }
}

/// A template that grants an image and a network.
fn generous() -> Template {
    Template {
        images: vec!["known".to_owned()],
        networks: vec!["net".to_owned()],
        ..Template::default()
    }
}

#[test]
fn the_request_chooses_the_provisioner() {
    let place = place(&[Isolation::Namespaces, Isolation::Container]);
    let auto = generous();
    for (start, given) in [
        (StartSession::default(), Isolation::Namespaces),
        (level(Isolation::Namespaces), Isolation::Namespaces),
        (level(Isolation::Container), Isolation::Container),
        (image("known"), Isolation::Container),
        (network("net"), Isolation::Container),
    ] {
        assert_eq!(place.level(&auto, &start), given);
    }
    // Without a grant what the gateway has is not to be had.
    for name in ["unknown", "known"] {
        assert_eq!(place.refusal(&image(name)), ("image_not_allowed", "image"));
    }
    for name in ["host", "net"] {
        assert_eq!(place.refusal(&network(name)), ("network_unsupported", "network"));
    }
    assert_eq!(
        place.refusal(&level(Isolation::Microvm)),
        ("isolation_unavailable", "isolation")
    );
}

#[test]
fn without_containers_the_refusal_says_what_is_missing() {
    let place = place(&[Isolation::None]);
    assert_eq!(place.refusal(&network("net")), ("network_unsupported", "network"));
    assert_eq!(place.refusal(&image("known")), ("image_not_allowed", "image"));
    assert_eq!(
        place.refusal(&level(Isolation::Namespaces)),
        ("isolation_unavailable", "isolation")
    );
    let docker = Template {
        provisioner: ProvisionerChoice::Named(ProvisionerKind::Docker),
        ..Template::default()
    };
    let missing = place.plan(&docker, &StartSession::default()).unwrap_err();
    assert_eq!(
        missing.to_string(),
        "provisioner: no provisioner docker is configured"
    );
}

#[test]
fn what_the_provisioner_cannot_do_is_refused() {
    let named = Template {
        provisioner: ProvisionerChoice::Named(ProvisionerKind::Docker),
        files: FilesMode::Session,
        ..generous()
    };
    let refusal = |change: fn(&mut Capabilities), start: &StartSession| {
        let stub = StubProvisioner::new(Isolation::Container).with(change);
        let place = TestOffer {
            provisioners: Arc::new(stub).into(),
            ..place(&[])
        };
        match place.plan(&named, start) {
            Err(EngineError::NotOffered { field, .. }) => field,
            Err(other) => panic!("{other}"),
            Ok(_) => "",
        }
    };
    let plain = StartSession::default();
    assert_eq!(refusal(|_| {}, &plain), "");
    assert_eq!(refusal(|can| can.kept_files = false, &plain), "files");
    assert_eq!(
        refusal(|can| can.root = RootFiles::Built, &image("known")),
        "image"
    );
    assert_eq!(refusal(|can| can.networks = false, &network("net")), "network");
}

#[test]
fn a_session_of_its_own_kind_does_not_come_from_the_pool() {
    let place = place(&[Isolation::Namespaces, Isolation::Container]);
    let template = Template {
        idle_timeout: Some(Duration::from_mins(1)),
        ..generous()
    };
    let unlike = |start: &StartSession| place.plan(&template, start).unwrap().unlike_pool;
    assert_eq!(unlike(&StartSession::default()), None);
    assert!(unlike(&image("known")).unwrap().contains("image"));
    let mut start = StartSession::default();
    start.limits.memory_bytes = Some(5);
    // The stub changes nothing of a sandbox that lives.
    assert_eq!(
        unlike(&start).as_deref(),
        Some("limits.memory_bytes is set when a sandbox starts")
    );
    // Time and the log are the gateway's own.
    let mut start = StartSession::default();
    start.limits.output_bytes = Some(5);
    assert_eq!(unlike(&start), None);
    let mut start = StartSession::default();
    start.limits.execution_ms = Some(5);
    start.idle_timeout = Some(Duration::from_secs(5));
    assert_eq!(unlike(&start), None);
    start.idle_timeout = Some(Duration::from_hours(1));
    assert!(place.plan(&template, &start).is_err());
}

#[test]
fn tenants_share_no_zygote_unless_the_template_says_so() {
    let mut config = EngineConfig::new("/nowhere");
    let (plain, named) = (
        Template::default(),
        Template {
            trust_domain: Some("all".to_owned()),
            ..Template::default()
        },
    );
    let domain = |config: &EngineConfig, template: &Template, owner| trust_domain(config, template, owner);
    for owner in [None, Some("operator")] {
        assert_eq!(domain(&config, &plain, owner).as_deref(), Some("gateway"));
    }
    config
        .tenants
        .insert("acme".to_owned(), himalia_model::TenantLimits::default());
    let of = |owner| domain(&config, &plain, Some(owner)).unwrap();
    assert_ne!(of("acme"), of("other"));
    assert_ne!(of("acme"), of("operator"));
    // Whose a pooled kernel will be is not known yet.
    assert_eq!(domain(&config, &plain, None), None);
    for owner in [None, Some("acme"), Some("other")] {
        assert_eq!(domain(&config, &named, owner).as_deref(), Some("all"));
    }
}

#[test]
fn a_session_that_code_starts_has_no_more_than_the_session_of_that_code() {
    let offer = place(&[Isolation::Namespaces]);
    let credential = |name: &str| serde_json::from_value(serde_json::json!({ "name": name })).unwrap();
    let patterns = |all: &[&str]| all.iter().map(|text| text.parse().unwrap()).collect::<Vec<_>>();
    let allow = |all: &[&str]| serde_json::from_value::<AllowList>(serde_json::json!(all)).unwrap();
    let template = Template {
        network: Network::Allow,
        allow: allow(&["*.example.org"]),
        credentials: vec![credential("a"), credential("b")],
        tools: ToolPolicy {
            tools: patterns(&["orders", "stripe"]),
            write: patterns(&["*"]),
            ..ToolPolicy::default()
        },
        ..Template::default()
    };
    let id = SessionId::random();
    let code = Session {
        sandbox: SandboxConfig {
            isolation: Isolation::Namespaces,
            network: Network::Allow,
            allow: allow(&["api.example.org"]),
            credentials: vec!["b".to_owned(), "c".to_owned()],
            tools: ToolPolicy {
                tools: patterns(&["orders.list_*", "other"]),
                approval: false,
                ..ToolPolicy::default()
            },
            ..SandboxConfig::default()
        },
        tree_limits: TreeLimits {
            depth: 2,
            sessions: 9,
        },
        ..Session::default()
    };
    let below = |code: &Session| StartSession {
        starter: Some(Box::new(Starter::new(id, code, Some(5)))),
        ..StartSession::default()
    };
    let plan = offer.plan(&template, &below(&code)).unwrap();
    let sandbox = &plan.session.sandbox;
    assert_eq!(sandbox.allow, allow(&["api.example.org"]));
    assert_eq!(sandbox.credentials, ["b"]);
    assert_eq!(sandbox.tools.tools, patterns(&["orders.list_*"]));
    assert_eq!((sandbox.tools.write.len(), sandbox.tools.approval), (0, false));
    let place = plan.session.tree.unwrap();
    assert_eq!((place.root, place.root_execution, place.depth), (id, Some(5), 1));
    assert_eq!(
        plan.session.tree_limits,
        TreeLimits {
            depth: 2,
            sessions: 9
        }
    );
    assert!(plan.unlike_pool.unwrap().contains("credentials"));
    // One without a network has nothing to give.
    let none = Session {
        sandbox: SandboxConfig {
            network: Network::None,
            allow: AllowList::default(),
            ..code.sandbox.clone()
        },
        ..code.clone()
    };
    assert!(
        offer
            .plan(&template, &below(&none))
            .unwrap()
            .session
            .sandbox
            .allow
            .is_empty()
    );
    // Nor is one started that is separated less.
    let strong = Session {
        sandbox: SandboxConfig {
            isolation: Isolation::Container,
            ..code.sandbox.clone()
        },
        ..code
    };
    assert!(matches!(
        offer.plan(&template, &below(&strong)),
        Err(EngineError::NotOffered {
            field: "isolation",
            ..
        })
    ));
}

/// The level of a runtime is known to its provisioner alone, which is asked for the level of the code that starts the session.
#[test]
fn a_session_is_separated_as_the_code_that_starts_it() {
    let place = place(&[Isolation::Namespaces, Isolation::Container]);
    let code = |isolation| Session {
        sandbox: SandboxConfig {
            isolation,
            ..SandboxConfig::default()
        },
        ..Session::default()
    };
    let below = |isolation| StartSession {
        starter: Some(Box::new(Starter::new(
            SessionId::random(),
            &code(isolation),
            None,
        ))),
        ..StartSession::default()
    };
    let named = Template {
        runtime: Some("runc".to_owned()),
        provisioner: ProvisionerChoice::Named(ProvisionerKind::Docker),
        ..Template::default()
    };
    for (template, isolation) in [
        (&named, Isolation::Gvisor),
        (&named, Isolation::Microvm),
        (&Template::default(), Isolation::Container),
        (&Template::default(), Isolation::Namespaces),
    ] {
        let plan = place.plan(template, &below(isolation)).unwrap();
        assert_eq!(plan.session.sandbox.isolation, isolation);
        assert!(plan.provisioner.capabilities().isolation >= isolation.min(Isolation::Container));
        // What a pool keeps ready for everybody may be separated less.
        assert_eq!(plan.unlike_pool.is_some(), isolation > Isolation::Namespaces);
    }
}
