"""The HTTP API: its routes, who may call them, how often."""

from __future__ import annotations

import json
import re

import aws_cdk as cdk
from aws_cdk import aws_apigatewayv2 as gateway
from aws_cdk import aws_apigatewayv2_authorizers as authorizers
from aws_cdk import aws_apigatewayv2_integrations as integrations
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct

from shared.routes import ROUTES
from stacks.constructs.encryption import customer_key
from stacks.stage import Stage

REQUESTS_PER_SECOND, BURST = 500, 1000
"""Of the whole API. Beyond it API Gateway answers 429 by itself, before a function of the account is used up."""

ASKED_HEADERS = (
    *("authorization", "content-type", "idempotency-key", "if-none-match"),
    *("x-amz-date", "x-amz-security-token", "x-amz-content-sha256"),  # of a SigV4 signature
)
ANSWERED_HEADERS = ("allow", "etag", "idempotent-replayed", "location", "retry-after")
"""What a script may send and read beyond CORS's own short lists: what the contract names."""

_LOGGED = {
    "request_id": "$context.requestId",
    "at": "$context.requestTime",
    "route": "$context.routeKey",
    "status": "$context.status",
    "latency_ms": "$context.responseLatency",
    "source_ip": "$context.identity.sourceIp",
    "error": "$context.error.message",
    "integration_error": "$context.integrationErrorMessage",
}


class FrontDoor(Construct):
    """Every route goes to one function, in payload format 2.0, behind the stage's authorizer."""

    def __init__(self, scope: Construct, id: str, *, stage: Stage, function: lambda_.IFunction) -> None:
        super().__init__(scope, id)
        integration = integrations.HttpLambdaIntegration(
            "Function", function, payload_format_version=gateway.PayloadFormatVersion.VERSION_2_0
        )
        self.api = gateway.HttpApi(
            self,
            "Api",
            api_name=stage.prefix,
            create_default_stage=False,
            default_authorizer=_authorizer(stage),
            # What no route matches goes to the function too: it says 404 and 405 as problem documents.
            default_integration=integration,
            cors_preflight=_cors(stage),
        )
        for route in ROUTES:
            method, path = route.split(" ")
            self.api.add_routes(path=path, methods=[gateway.HttpMethod(method)], integration=integration)
        self._publish(stage)

    def _publish(self, stage: Stage) -> None:
        published = gateway.HttpStage(
            self,
            "Stage",
            http_api=self.api,
            stage_name="$default",
            auto_deploy=True,
            throttle=gateway.ThrottleSettings(rate_limit=REQUESTS_PER_SECOND, burst_limit=BURST),
        )
        resource = published.node.default_child
        assert isinstance(resource, gateway.CfnStage)
        resource.access_log_settings = gateway.CfnStage.AccessLogSettingsProperty(
            destination_arn=_access_log(self, stage).log_group_arn, format=json.dumps(_LOGGED | _caller(stage))
        )


def _cors(stage: Stage) -> gateway.CorsPreflightOptions | None:
    """API Gateway answers preflights itself, before authorizer and function, and names the origin in every answer.

    Without credentials: tokens and signatures travel in headers that scripts set, never in cookies.
    """
    if not stage.cors_origins:
        return None
    methods = {route.split(" ")[0] for route in ROUTES}
    return gateway.CorsPreflightOptions(
        allow_origins=stage.cors_origins.split(","),
        allow_methods=[gateway.CorsHttpMethod(method) for method in sorted(methods)],
        allow_headers=list(ASKED_HEADERS),
        expose_headers=list(ANSWERED_HEADERS),
        allow_credentials=False,
        max_age=cdk.Duration.hours(1),
    )


def _caller(stage: Stage) -> dict[str, str]:
    """Who called, as the stage's authorizer knows them."""
    if stage.auth != "jwt":
        return {"caller": "$context.identity.userArn"}
    who = {"subject": "$context.authorizer.claims.sub"}
    # A claim named otherwise ("custom:tenant", a URL) has no variable that AWS documents; the function's own line of
    # the same request names the tenant too.
    if re.fullmatch(r"\w+", stage.tenant_claim):
        who["tenant"] = f"$context.authorizer.claims.{stage.tenant_claim}"
    return who


def _authorizer(stage: Stage) -> gateway.IHttpRouteAuthorizer:
    match stage.auth:
        case "iam":
            return authorizers.HttpIamAuthorizer()
        case "jwt":
            return authorizers.HttpJwtAuthorizer("Jwt", stage.jwt_issuer, jwt_audience=stage.jwt_audience.split(","))
        case "none":
            return gateway.HttpNoneAuthorizer()
        case unknown:
            raise ValueError(f"auth {unknown!r}: no such kind")


def _access_log(scope: Construct, stage: Stage) -> logs.LogGroup:
    return logs.LogGroup(
        scope,
        "AccessLog",
        # Under this path the delivery needs no resource policy of its own, of which an account has ten.
        log_group_name=f"/aws/vendedlogs/{stage.prefix}-api",
        retention=logs.RetentionDays.ONE_WEEK if stage.is_disposable else logs.RetentionDays.THREE_MONTHS,
        removal_policy=cdk.RemovalPolicy.DESTROY,
        encryption_key=customer_key(scope, stage),
    )
