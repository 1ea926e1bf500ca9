"""schemathesis sends requests that the description allows, and many that it does not."""

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from running import new_model, running
from schemathesis import GenerationMode

CHECKS = [
    schemathesis.checks.not_a_server_error,
    schemathesis.checks.response_schema_conformance,
    schemathesis.checks.content_type_conformance,
    schemathesis.checks.status_code_conformance,
]
OPERATIONS = [
    *(("GET", path) for path in ("/models", "/models/{name}", "/models/{name}/file", "/metrics")),
    *(("GET", path) for path in ("/healthz", "/readyz")),
    *(("POST", path) for path in ("/models", "/models/{name}/predict", "/models/{name}/learn")),
    ("DELETE", "/models/{name}"),
]


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    folder = tmp_path_factory.mktemp("service")
    with running(folder, {"m": new_model()}, max_models=5) as found:
        found.learn(*range(20))
        yield found


@pytest.fixture(scope="module")
def description(service):
    return schemathesis.openapi.from_url(f"{service.url}/openapi.json")


def test_all_operations_are_tested(description):
    found = {(r.ok().method.upper(), r.ok().path) for r in description.get_all_operations()}
    assert found == set(OPERATIONS)


@pytest.mark.parametrize("mode", list(GenerationMode))
@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_no_request_makes_the_service_fail(description, method, path, mode):
    operation = description[path][method]
    count = 40 if method == "POST" else 5

    @settings(max_examples=count, deadline=None, suppress_health_check=list(HealthCheck))
    @given(case=operation.as_strategy(generation_mode=mode))
    def send(case):
        if method != "DELETE" and "{name}" in path and len(str(case.body)) % 4:  # mostly a model that exists
            case.path_parameters["name"] = "m"
        case.call_and_validate(checks=CHECKS)

    try:
        send()
    except schemathesis.errors.InvalidSchema:
        raise
    except Exception as error:
        if mode is GenerationMode.NEGATIVE and "Unsatisfiable" in type(error).__name__:
            pytest.skip("every request is one that the description allows")
        raise
