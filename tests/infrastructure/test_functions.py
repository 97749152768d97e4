"""One function, one role, one log; and nothing may do more than it must."""

from __future__ import annotations

from collections import Counter
from typing import Any

from shared.domain.job import SAID_AT_SUBMIT
from shared.queues import QUEUES
from shared.settings import ApiSettings, PromoterSettings, RelaySettings, TallySettings, WorkerSettings

FUNCTION, ROLE, POLICY = "AWS::Lambda::Function", "AWS::IAM::Role", "AWS::IAM::Policy"
OF_THE_PIPELINE = ("logs", "dynamodb", "s3", "sqs", "kms")
WRITES = {
    f"dynamodb:{verb}"
    for verb in ("PutItem", "UpdateItem", "DeleteItem", "BatchWriteItem", "PartiQLInsert", "PartiQLUpdate")
}
KINDS = {
    "api": ApiSettings,
    "promoter": PromoterSettings,
    "relay": RelaySettings,
    "tally": TallySettings,
    "worker": WorkerSettings,
}


def test_there_is_one_worker_per_lane_and_one_of_each_other_function(every_stage) -> None:
    expected = {"api", "relay", "promoter", "tally", *(f"worker-{lane.slug}" for lane in QUEUES.values())}
    names = set(every_stage.properties(FUNCTION, "FunctionName"))
    assert names == {f"holdfast-{every_stage.stage}-{name}" for name in expected}


def test_every_function_runs_the_same_python_on_arm(every_stage) -> None:
    functions = [f["Properties"] for f in every_stage.of(FUNCTION).values()]
    assert {f["Runtime"] for f in functions} == {"python3.14"}
    assert {tuple(f["Architectures"]) for f in functions} == {("arm64",)}
    assert {f["Handler"] for f in functions} == {f"lambdas.{kind}.handler.handler" for kind in KINDS}


def test_every_function_has_a_role_of_its_own(every_stage) -> None:
    roles = Counter(f["Properties"]["Role"]["Fn::GetAtt"][0] for f in every_stage.of(FUNCTION).values())
    assert set(roles.values()) == {1}
    assert set(roles) <= set(every_stage.of(ROLE))


def test_every_function_finds_its_settings_and_they_fit(every_stage) -> None:
    for name, function in every_stage.properties(FUNCTION, "FunctionName").items():
        variables = function["Environment"]["Variables"]
        kind = KINDS[function["Handler"].split(".")[1]]
        plain = {key: value if isinstance(value, str) else "resolved-at-deployment" for key, value in variables.items()}
        settings = kind.from_environment(plain)
        assert settings.stage == every_stage.stage, name
        assert (
            sum(len(key) + 120 if value != plain[key] else len(key + value) for key, value in variables.items()) < 4096
        )


def test_every_log_ends_some_day_and_goes_with_its_function(every_stage) -> None:
    groups = every_stage.of("AWS::Logs::LogGroup")
    days = 7 if every_stage.stage in ("dev", "local") else 90
    assert {(g["Properties"]["RetentionInDays"], g["DeletionPolicy"]) for g in groups.values()} == {(days, "Delete")}
    for name, function in every_stage.properties(FUNCTION, "FunctionName").items():
        group = groups[function["LoggingConfig"]["LogGroup"]["Ref"]]
        assert group["Properties"]["LogGroupName"] == f"/aws/lambda/{name}"


def test_no_role_may_do_everything_or_touch_everything(every_stage) -> None:
    for role, statements in _grants(every_stage).items():
        for statement in statements:
            assert statement["Effect"] == "Allow", role
            assert [a for a in statement["Action"] if "*" in a] == [], role
            assert "*" not in statement["Resource"], role  # no action here lacks resource-level permissions


def test_no_role_takes_a_policy_that_somebody_else_may_widen(every_stage) -> None:
    roles = every_stage.of(ROLE).values()
    assert [r for r in roles if r["Properties"].get("ManagedPolicyArns") or r["Properties"].get("Policies")] == []


def test_a_worker_reaches_its_own_lane_and_no_other(every_stage) -> None:
    queues = {id: r["Properties"]["QueueName"] for id, r in every_stage.of("AWS::SQS::Queue").items()}
    prefix = f"holdfast-{every_stage.stage}"
    for lane in QUEUES.values():
        statements = _of_function(every_stage, f"{prefix}-worker-{lane.slug}")
        reached = {queues[r["Fn::GetAtt"][0]]: set() for s in statements for r in _queues_in(s, queues)}
        for statement in statements:
            for resource in _queues_in(statement, queues):
                reached[queues[resource["Fn::GetAtt"][0]]] |= set(statement["Action"])
        assert set(reached) == {lane.physical_name(prefix), lane.dead_letter_name(prefix)}
        assert reached[lane.dead_letter_name(prefix)] == {"sqs:SendMessage", "sqs:GetQueueUrl"}
        assert reached[lane.physical_name(prefix)] == {
            "sqs:ReceiveMessage",
            "sqs:DeleteMessage",
            "sqs:ChangeMessageVisibility",
            "sqs:GetQueueUrl",
            "sqs:GetQueueAttributes",
        }


def test_the_tables_and_files_are_open_to_each_function_by_the_verb(prod) -> None:
    table = {f"dynamodb:{verb}" for verb in ("GetItem", "UpdateItem")}
    worker = _actions(prod, "holdfast-prod-worker-exports-month-end")
    assert {a for a in worker if not a.startswith(("sqs", "logs"))} == {
        *table,
        *("s3:GetObject", "s3:PutObject", "s3:AbortMultipartUpload", "s3:ListBucket"),
    }
    mail = _actions(prod, "holdfast-prod-worker-emails-high")
    assert {a for a in mail if not a.startswith(("sqs", "logs"))} == {*table, "ses:SendEmail"}
    assert {a for a in _actions(prod, "holdfast-prod-relay") if a.startswith(("dynamodb", "s3"))} == {
        "dynamodb:UpdateItem",
        *(f"dynamodb:{verb}" for verb in ("DescribeStream", "GetRecords", "GetShardIterator", "ListStreams")),
    }
    assert {a for a in _actions(prod, "holdfast-prod-promoter") if not a.startswith("logs")} == {
        *("dynamodb:GetItem", "dynamodb:UpdateItem", "dynamodb:Query"),
    }
    assert {a for a in _actions(prod, "holdfast-prod-api") if not a.startswith("logs")} == {
        *("dynamodb:GetItem", "dynamodb:PutItem", "s3:GetObject", "s3:GetObjectVersion"),
        *("dynamodb:UpdateItem", "dynamodb:Query"),  # of the quotas' counts alone: see below
    }


def test_only_the_api_puts_items_and_whoever_moves_jobs_may_not_touch_what_was_said_at_submit(every_stage) -> None:
    """An UpdateItem makes an item where there is none: without the condition it would plant jobs as a PutItem does."""
    for name in _names(every_stage):
        said = [s for s in _of_function(every_stage, name) if "Controls" not in str(s["Resource"])]
        writes = [s for s in said if WRITES & set(s["Action"])]
        if name.endswith("-api"):
            assert {action for s in writes for action in s["Action"]} & WRITES == {"dynamodb:PutItem"}
            continue
        for statement in writes:
            assert statement["Action"] == ["dynamodb:UpdateItem"], name
            assert statement["Condition"] == {
                "ForAllValues:StringNotEquals": {"dynamodb:Attributes": list(SAID_AT_SUBMIT)}
            }


def test_no_worker_may_list_jobs_so_it_reaches_only_those_whose_id_it_was_given(every_stage) -> None:
    lists = {"dynamodb:Query", "dynamodb:Scan", "dynamodb:PartiQLSelect", "dynamodb:BatchGetItem"}
    for lane in QUEUES.values():
        assert _actions(every_stage, f"holdfast-{every_stage.stage}-worker-{lane.slug}") & lists == set()


def test_whoever_counts_may_change_its_own_counts_and_nothing_else_that_the_controls_hold(prod) -> None:
    lanes = [lane for lane in QUEUES.values() if lane.tenant_share is not None]
    counting = {
        "api": ({"dynamodb:UpdateItem", "dynamodb:Query"}, "QUOTA#*"),
        "tally": ({"dynamodb:UpdateItem"}, "QUOTA#*"),
        **{
            f"worker-{lane.slug}": ({"dynamodb:GetItem", "dynamodb:UpdateItem"}, f"SHARE#{lane.name}#*")
            for lane in lanes
        },
    }
    for name in _names(prod):
        statements = [s for s in _of_function(prod, name) if "Controls" in str(s["Resource"])]
        actions, keys = counting.get(name.removeprefix("holdfast-prod-"), (None, None))
        assert [set(s["Action"]) for s in statements] == ([] if actions is None else [actions]), name
        for statement in statements:
            assert statement["Condition"] == {"ForAllValues:StringLike": {"dynamodb:LeadingKeys": [keys]}}


def test_what_a_lanes_jobs_may_do_besides_is_its_own_workers_and_no_others(every_stage) -> None:
    mail = {
        ("ses:SendEmail", "ses:<region>:<account>:identity/example.com"),
        ("ses:SendEmail", "ses:<region>:<account>:configuration-set/reports"),
    }
    secrets = f"secretsmanager:<region>:<account>:secret:holdfast/{every_stage.stage}/webhooks/*"
    expected = {
        "worker-emails-high": mail,
        "worker-emails-bulk": mail,
        "worker-webhooks-partner-a": {("secretsmanager:GetSecretValue", secrets)},
    }
    prefix = f"holdfast-{every_stage.stage}-"
    found = {name.removeprefix(prefix): _besides(every_stage, name) for name in _names(every_stage)}
    assert {name: rights for name, rights in found.items() if rights} == expected


def test_files_are_a_lanes_declared_right_by_prefix_and_mail_and_webhooks_have_none(every_stage) -> None:
    writes = ("s3:PutObject", "s3:AbortMultipartUpload")
    reached = {name: _files(every_stage, f"worker-{lane.slug}") for name, lane in QUEUES.items()}
    assert {name: files for name, files in reached.items() if files} == {
        "exports.month-end": {
            ("s3:GetObject", "invoices/*"),
            ("s3:GetObject", "work/*"),
            *((action, keys) for action in writes for keys in ("exports/*", "work/*")),
        },
        "thumbnails": {("s3:GetObject", "uploads/*"), *((action, "thumbnails/*") for action in writes)},
    }
    reads = ("s3:GetObject", "s3:GetObjectVersion")
    assert _files(every_stage, "api") == {(a, keys) for a in reads for keys in ("exports/*", "thumbnails/*")}
    assert _files(every_stage, "relay") | _files(every_stage, "promoter") == set()


def test_a_worker_lists_names_under_what_it_reads_and_nobody_else_lists_any(every_stage) -> None:
    lists = {
        name.removeprefix(f"holdfast-{every_stage.stage}-worker-"): statement["Condition"]["StringLike"]["s3:prefix"]
        for name in _names(every_stage)
        for statement in _of_function(every_stage, name)
        if "s3:ListBucket" in statement["Action"]
    }
    assert {name: _list(prefixes) for name, prefixes in lists.items()} == {
        lane.slug: [f"{prefix}*" for prefix in sorted(lane.reads)] for lane in QUEUES.values() if lane.reads
    }


def test_every_declared_right_is_granted_and_only_to_its_lane(every_stage) -> None:
    prefix = f"holdfast-{every_stage.stage}"
    for lane in QUEUES.values():
        declared = {
            (action, f"{right.service}:<region>:<account>:{right.name(every_stage.stage)}")
            for right in lane.rights
            for action in right.actions
        }
        assert _besides(every_stage, f"{prefix}-worker-{lane.slug}") == declared, lane.name


def test_the_relay_can_send_to_every_queue_and_receive_from_none(every_stage) -> None:
    queues = {id: r["Properties"]["QueueName"] for id, r in every_stage.of("AWS::SQS::Queue").items()}
    statements = _of_function(every_stage, f"holdfast-{every_stage.stage}-relay")
    sends = {r["Fn::GetAtt"][0] for s in statements if "sqs:SendMessage" in s["Action"] for r in _queues_in(s, queues)}
    assert sends == set(queues)
    assert [a for s in statements for a in s["Action"] if a in ("sqs:ReceiveMessage", "sqs:DeleteMessage")] == []


def test_the_relay_knows_a_new_lane_before_anyone_can_queue_a_job_there(every_stage) -> None:
    """An older one would park the doorbell."""
    functions = every_stage.of(FUNCTION)
    (relay,) = [name for name in functions if name.startswith("Relay")]
    queueing = [name for name in functions if name.startswith(("Worker", "ApiFunction"))]
    assert len(queueing) == len(QUEUES) + 1
    assert all(relay in functions[name]["DependsOn"] for name in queueing)


def test_no_role_names_an_event_source_because_that_is_a_cycle_no_synthesis_shows(every_stage) -> None:
    granted = {action for statements in _grants(every_stage).values() for s in statements for action in s["Action"]}
    assert {action for action in granted if action.startswith("lambda:")} == {"lambda:InvokeFunction"}  # the ticker's


def _grants(stacks: Any) -> dict[str, list[dict[str, Any]]]:
    """The statements of every role, actions and resources as lists."""
    grants: dict[str, list[dict[str, Any]]] = {role: [] for role in stacks.of(ROLE)}
    for policy in stacks.of(POLICY).values():
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]:
            listed = {key: _list(statement[key]) for key in ("Action", "Resource")}
            for role in policy["Properties"]["Roles"]:
                grants[role["Ref"]].append({**statement, **listed})
    return grants


def _of_function(stacks: Any, name: str) -> list[dict[str, Any]]:
    role = stacks.properties(FUNCTION, "FunctionName")[name]["Role"]["Fn::GetAtt"][0]
    return _grants(stacks)[role]


def _names(stacks: Any) -> list[str]:
    return list(stacks.properties(FUNCTION, "FunctionName"))


def _besides(stacks: Any, name: str) -> set[tuple[str, str]]:
    """(action, end of the ARN) of what a function may do besides what all of its kind may."""
    return {
        (action, _spelled(resource))
        for statement in _of_function(stacks, name)
        for action in statement["Action"]
        if action.partition(":")[0] not in OF_THE_PIPELINE
        for resource in statement["Resource"]
    }


def _files(stacks: Any, name: str) -> set[tuple[str, str]]:
    """(action, keys) of the files that a function may reach."""
    return {
        (action, _spelled(resource).partition("/")[2])
        for statement in _of_function(stacks, f"holdfast-{stacks.stage}-{name}")
        for action in statement["Action"]
        if action.startswith("s3:") and action != "s3:ListBucket"
        for resource in statement["Resource"]
    }


def _spelled(resource: Any) -> str:
    """An ARN without its beginning, "ses:<region>:<account>:identity/*"."""
    refs = {"AWS::Partition": "<partition>", "AWS::Region": "<region>", "AWS::AccountId": "<account>"}
    parts = [part if isinstance(part, str) else refs[part["Ref"]] for part in resource["Fn::Join"][1]]
    return "".join(parts).removeprefix("arn:<partition>:")


def _actions(stacks: Any, name: str) -> set[str]:
    return {action for statement in _of_function(stacks, name) for action in statement["Action"]}


def _queues_in(statement: dict[str, Any], queues: dict[str, str]) -> list[dict[str, Any]]:
    resources = [r for r in statement["Resource"] if isinstance(r, dict) and "Fn::GetAtt" in r]
    return [r for r in resources if r["Fn::GetAtt"][0] in queues]


def _list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list) else [value]


def test_the_promoter_ticks_every_minute_and_a_failed_tick_is_not_repeated(every_stage) -> None:
    (schedule,) = every_stage.of("AWS::Scheduler::Schedule").values()
    said = schedule["Properties"]
    assert (said["ScheduleExpression"], said["FlexibleTimeWindow"]) == ("rate(1 minute)", {"Mode": "OFF"})
    assert said["Target"]["RetryPolicy"] == {"MaximumRetryAttempts": 0, "MaximumEventAgeInSeconds": 60}
