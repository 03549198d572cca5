use serde_json::json;

use super::*;

fn read(
    mut description: Value,
) -> (
    HashMap<String, Operation>,
    himalia_tools::ServerTools,
    himalia_tools::BadTools,
) {
    description["openapi"] = json!("3.1.0");
    let description = Description::parse(description.to_string().as_bytes()).unwrap();
    let (operations, listing) = all(&description);
    let (tools, left_out) = listing.into_tools("s", "");
    (operations, tools, left_out)
}

fn schema(text: &str) -> Value {
    json!({"content": {"application/json": {"schema": {"$ref": format!("#/components/schemas/{text}")}}}})
}

fn pets() -> Value {
    let mut create = schema("NewPet");
    create["required"] = json!(true);
    json!({
        "paths": {
            "/pets/{petId}": {
                "parameters": [{"$ref": "#/components/parameters/Id"}],
                "get": {"operationId": "getPet", "summary": "A pet", "description": "One of the pets.", "responses": {
                    "404": schema("Error"), "200": schema("Pet")}},
                "delete": {"responses": {}},
                "put": {"operationId": "put pet!", "requestBody": schema("NewPet")},
            },
            "/pets": {
                "post": {"operationId": "createPet", "requestBody": {"$ref": "#/components/requestBodies/Create"},
                    "parameters": [{"name": "dry run", "in": "query", "description": "Only check.", "schema": {"type": "boolean"}},
                        {"name": "Authorization", "in": "header", "schema": {"type": "string"}}]},
            },
        },
        "components": {
            "parameters": {"Id": {"name": "petId", "in": "path", "required": true, "schema": {"type": "integer"}}},
            "requestBodies": {"Create": create},
            "schemas": {
                "NewPet": {"type": "object", "required": ["name"], "properties": {
                    "name": {"type": "string"}, "friends": {"type": "array", "items": {"$ref": "#/components/schemas/Pet"}}}},
                "Pet": {"type": "object", "properties": {"id": {"type": "integer"}, "name": {"type": "string"}}},
                "Error": {"type": "object"},
            },
        },
    })
}

#[test]
fn operations_are_tools() {
    let (operations, tools, left_out) = read(pets());
    assert_eq!(left_out.count, 0, "{left_out:?}");
    let mut names: Vec<_> = tools
        .tools()
        .iter()
        .map(|tool| tool.definition().name.as_str())
        .collect();
    names.sort_unstable();
    assert_eq!(names, ["createPet", "delete_pets_petId", "getPet", "put_pet"]);

    let get = tools.get("getPet").unwrap().definition();
    assert_eq!(get.description, "A pet\nOne of the pets.");
    assert_eq!(get.input_schema["required"], json!(["petId"]));
    assert_eq!(get.output_schema.as_ref().unwrap()["$ref"], "#/$defs/Pet");
    assert!(get.effect.read_only && get.effect.idempotent && !get.effect.destructive);
    let effect = |name: &str| tools.get(name).unwrap().definition().effect;
    assert!(effect("delete_pets_petId").destructive && effect("delete_pets_petId").idempotent);
    assert!(effect("put_pet").idempotent && !effect("createPet").idempotent);

    // The members of a body are arguments beside the parameters; what they refer to goes with them.
    let create = tools.get("createPet").unwrap();
    let input = &create.definition().input_schema;
    assert_eq!(input["properties"]["dry run"]["description"], "Only check.");
    assert_eq!(input["properties"]["friends"]["items"]["$ref"], "#/$defs/Pet");
    assert!(input["properties"].get("Authorization").is_none());
    assert_eq!(
        create.check(&json!({"name": "Rex", "friends": [{"id": 1}], "dry run": true})),
        []
    );
    let wrong = create.check(&json!({"friends": [{"id": "x"}]}));
    let rules: Vec<_> = wrong
        .iter()
        .map(|one| (one.path.as_str(), one.rule.as_str()))
        .collect();
    assert!(
        rules.contains(&("", "required")) && rules.contains(&("/friends/0/id", "type")),
        "{rules:?}"
    );

    // A body that may be absent and has needed members is one argument.
    assert_eq!(
        operations["put_pet"].body,
        RequestBody::Whole {
            format: Format::Json("application/json".to_owned())
        }
    );
    let put = tools.get("put_pet").unwrap();
    assert_eq!(put.check(&json!({"petId": 1})), []);
    assert_eq!(put.check(&json!({"petId": 1, "body": {}}))[0].path, "/body");
    assert_eq!(
        put.check(&json!({"petId": 1, "boddy": {}}))[0].rule,
        "additionalProperties"
    );
}

#[test]
fn a_body_whose_members_have_names_of_parameters_is_one_argument() {
    let (operations, tools, _) = read(json!({"paths": {"/a/{id}": {"post": {
        "operationId": "a",
        "parameters": [
            {"name": "id", "in": "path", "required": true, "schema": {"type": "string"}},
            {"name": "id", "in": "query", "schema": {"type": "integer"}},
        ],
        "requestBody": {"required": true, "content": {"application/json": {"schema": {
            "type": "object", "properties": {"id": {"type": "boolean"}}}}}},
    }}}}));
    let properties = &tools.get("a").unwrap().definition().input_schema["properties"];
    let mut names: Vec<_> = properties
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    names.sort_unstable();
    assert_eq!(names, ["body", "id", "id_query"]);
    assert!(matches!(operations["a"].body, RequestBody::Whole { .. }));
}

#[test]
fn a_form_is_arguments_and_its_files_are_described() {
    let upload =
        |schema: Value| json!({"required": true, "content": {"multipart/form-data": {"schema": schema}}});
    let (operations, tools, left_out) = read(json!({"paths": {
        "/files": {"post": {"operationId": "upload", "requestBody": upload(json!({"$ref": "#/components/schemas/Upload"}))}},
        "/any": {"post": {"operationId": "any", "requestBody": {"content": {"application/x-www-form-urlencoded": {}}}}},
        "/both": {"post": {"operationId": "both", "requestBody": {"content": {"multipart/form-data": {},
            "application/json": {"schema": {"type": "object", "properties": {"a": {}}}}}}}},
    }, "components": {"schemas": {"Upload": {"type": "object", "required": ["file"], "properties": {
        "file": {"type": "string", "format": "binary"}, "name": {"type": "string"}}}}}}));
    assert_eq!(left_out.count, 0, "{left_out:?}");
    assert!(matches!(
        &operations["upload"].body,
        RequestBody::Rest {
            format: Format::Form(_),
            required: true
        }
    ));
    assert!(matches!(
        &operations["both"].body,
        RequestBody::Rest {
            format: Format::Json(_),
            ..
        }
    ));
    assert!(matches!(
        &operations["any"].body,
        RequestBody::Whole {
            format: Format::Form(_)
        }
    ));
    let upload = tools.get("upload").unwrap();
    let file = &upload.definition().input_schema["properties"]["file"];
    assert_eq!(
        (&file["type"], &file["contentEncoding"]),
        (&json!("string"), &json!("base64"))
    );
    assert!(file["description"].as_str().unwrap().contains("base64"));
    assert_eq!(upload.check(&json!({"name": "a"}))[0].rule, "required");
    let any = tools.get("any").unwrap();
    assert_eq!(any.check(&json!({"body": {"a": 1}})), []);
    assert_eq!(any.check(&json!({"body": [1]}))[0].path, "/body");
}

#[test]
fn what_cannot_be_called_is_left_out_with_its_reason() {
    let text = json!({"required": true, "content": {"text/plain": {}}});
    let array = json!({"content": {"multipart/form-data": {"schema": {"type": "array"}}}});
    let (_, tools, left_out) = read(json!({"paths": {
        "/ok": {"get": {"operationId": "ok"}, "post": {"operationId": "ok"}},
        "/text": {"post": {"requestBody": text}},
        "/array": {"post": {"requestBody": array}},
        "/path/{a}": {"get": {}},
        "/cookie": {"get": {"parameters": [{"name": "c", "in": "cookie", "required": true}]}},
        "/elsewhere": {"get": {"servers": [{"url": "http://169.254.169.254/"}]}},
        "/file": {"get": {"parameters": [{"$ref": "file:///etc/passwd"}]}},
        "/style": {"get": {"parameters": [{"name": "m", "in": "query", "style": "matrix"}]}},
        "/item": {"$ref": "#/nowhere"},
    }}));
    assert_eq!((tools.tools().len(), left_out.count), (1, 9), "{left_out:?}");
    for one in &left_out.first {
        assert!(!one.reason.is_empty());
    }
}
