"""Who may call the API, and how often."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.api import Client

ROUTES = {"POST /jobs", "POST /exports", "GET /jobs/{id}", "GET /jobs/{id}/result", "GET /openapi.json", "$default"}


@pytest.mark.parametrize(
    ("stage", "kind"), [("dev", "AWS_IAM"), ("prod", "AWS_IAM"), ("jwt", "JWT"), ("local", "NONE")]
)
def test_every_route_is_behind_the_stages_authorizer_unknown_paths_included(stacks, stage, kind) -> None:
    routes = [r["Properties"] for r in stacks(stage).of("AWS::ApiGatewayV2::Route").values()]
    assert {r["RouteKey"]: r["AuthorizationType"] for r in routes} == dict.fromkeys(ROUTES, kind)


def test_a_token_counts_only_from_the_stages_issuer_and_for_its_audiences(stacks) -> None:
    (authorizer,) = stacks("jwt").of("AWS::ApiGatewayV2::Authorizer").values()
    assert authorizer["Properties"]["JwtConfiguration"] == {
        "Issuer": "https://id.example.com/",
        "Audience": ["jobs", "exports"],
    }
    assert _api_variables(stacks("jwt"))["HOLDFAST_TENANT_CLAIM"] == "tenant"


@pytest.mark.parametrize(("stage", "auth"), [("prod", "iam"), ("jwt", "jwt"), ("local", "none")])
def test_the_function_is_told_who_checks_its_callers(stacks, stage, auth) -> None:
    assert _api_variables(stacks(stage))["HOLDFAST_AUTH"] == auth


def test_one_caller_cannot_use_up_the_accounts_functions(every_stage) -> None:
    (stage,) = every_stage.of("AWS::ApiGatewayV2::Stage").values()
    settings = stage["Properties"]["DefaultRouteSettings"]
    assert (settings["ThrottlingRateLimit"], settings["ThrottlingBurstLimit"]) == (500, 1000)
    assert stage["Properties"]["StageName"] == "$default"
    assert stage["Properties"]["AutoDeploy"] is True


def test_every_call_leaves_a_line_that_says_who_and_how_it_ended(every_stage) -> None:
    (stage,) = every_stage.of("AWS::ApiGatewayV2::Stage").values()
    log = stage["Properties"]["AccessLogSettings"]
    assert {"status", "route", "request_id", "source_ip", "integration_error"} <= set(json.loads(log["Format"]))
    (id, _) = log["DestinationArn"]["Fn::GetAtt"]
    group = every_stage.of("AWS::Logs::LogGroup")[id]["Properties"]
    assert group["LogGroupName"] == f"/aws/vendedlogs/holdfast-{every_stage.stage}-api"


def test_no_page_of_another_origin_may_call_unless_its_origin_is_named(stacks) -> None:
    for stage in ("dev", "prod", "local"):
        (api,) = stacks(stage).of("AWS::ApiGatewayV2::Api").values()
        assert "CorsConfiguration" not in api["Properties"]

    (api,) = stacks("jwt").of("AWS::ApiGatewayV2::Api").values()
    cors = api["Properties"]["CorsConfiguration"]
    assert cors["AllowOrigins"] == ["https://app.example.com", "http://localhost:5173"]
    assert set(cors["AllowMethods"]) == {route.split(" ")[0] for route in ROUTES if " " in route}
    assert {"authorization", "content-type", "idempotency-key"} <= set(cors["AllowHeaders"])
    assert cors["AllowCredentials"] is False


def test_a_page_may_send_and_read_every_header_that_the_contract_names(stacks) -> None:
    (api,) = stacks("jwt").of("AWS::ApiGatewayV2::Api").values()
    calls = [call for path in Client().get("/openapi.json").json["paths"].values() for call in path.values()]
    answers = [answer for call in calls for answer in call["responses"].values()]
    answered = {name.lower() for answer in answers for name in answer.get("headers", ())}
    asked = {parameter["name"].lower() for call in calls for parameter in call["parameters"] if is_header(parameter)}

    assert answered <= set(api["Properties"]["CorsConfiguration"]["ExposeHeaders"])
    assert asked <= set(api["Properties"]["CorsConfiguration"]["AllowHeaders"])


def is_header(parameter: Any) -> bool:
    return bool(parameter.get("in") == "header")


@pytest.mark.parametrize(
    ("stage", "who"),
    [
        ("prod", {"caller": "$context.identity.userArn"}),
        ("local", {"caller": "$context.identity.userArn"}),
        ("jwt", {"subject": "$context.authorizer.claims.sub", "tenant": "$context.authorizer.claims.tenant"}),
    ],
)
def test_an_access_log_names_the_caller_as_its_stage_knows_them(stacks, stage, who) -> None:
    (published,) = stacks(stage).of("AWS::ApiGatewayV2::Stage").values()
    log = json.loads(published["Properties"]["AccessLogSettings"]["Format"])
    assert {name: log[name] for name in ("caller", "subject", "tenant") if name in log} == who


def test_the_function_ends_before_the_gateway_stops_waiting(every_stage) -> None:
    api = every_stage.properties("AWS::Lambda::Function", "FunctionName")[f"holdfast-{every_stage.stage}-api"]
    assert api["Timeout"] < 29


def test_calls_come_in_the_payload_format_the_function_reads(every_stage) -> None:
    integrations = every_stage.of("AWS::ApiGatewayV2::Integration").values()
    assert {i["Properties"]["PayloadFormatVersion"] for i in integrations} == {"2.0"}


def test_the_deployment_says_where_everything_is(every_stage) -> None:
    outputs = every_stage.templates["Pipeline"]["Outputs"]
    assert {"ApiId", "ApiUrl", "JobsTable", "Bucket", "Prefix"} <= set(outputs)
    assert outputs["Prefix"]["Value"] == f"holdfast-{every_stage.stage}"


def _api_variables(stacks: Any) -> dict[str, Any]:
    functions = stacks.properties("AWS::Lambda::Function", "FunctionName")
    return dict(functions[f"holdfast-{stacks.stage}-api"]["Environment"]["Variables"])
