"""The laboratory answers with the numbers of torch and of the solver, and refuses the rest."""

import asyncio
import base64
import contextlib
import functools
import json
import os
import socket
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

import pdno
from pdno.data.problems import HeatProblem, NavierStokesProblem
from pdno.interface.errors import SolverError
from pdno.laboratory.catalogue import State, StateRequest, serve_runs
from pdno.laboratory.computation import Batches, Conditions, Worker, reference_solution

httpx = pytest.importorskip("httpx", reason="pip install 'pdno[test]'")
pytest.importorskip("uvicorn", reason="pip install 'pdno[serve]'")

from pdno.laboratory import page, server  # noqa: E402


@pytest.fixture(scope="module")
def catalogue(runs):
    return serve_runs(runs)


@pytest.fixture(scope="module")
def client(runs, laboratory):
    with laboratory(runs) as address, httpx.Client(base_url=address, timeout=120) as made:
        yield made


def field(*shape, positive=False):
    noise = torch.randn(6, 6, generator=torch.Generator().manual_seed(0))
    smooth = (
        pdno.spectral.calculus.resample(noise, shape)
        if len(shape) == 2
        else torch.sin(2 * torch.pi * torch.arange(shape[0]) / shape[0])
    )
    return torch.where(smooth > 0, 12.0, 3.0) if positive else smooth


def ask(operator, values, **more):
    data = base64.b64encode(values.numpy().astype("<f4").tobytes()).decode()
    return {"operator": operator, "shape": list(values.shape), "data": data, **more}


def numbers(answer):
    assert answer.status_code == 200, answer.text
    body = answer.json()
    raw = np.frombuffer(base64.b64decode(body["data"]), dtype="<f4")
    return torch.from_numpy(raw.reshape(body["shape"]).copy())


def solve(problem, state, times):
    """What a worker computes."""
    grid = pdno.Grid(tuple(state.shape))
    return functools.partial(reference_solution, problem, state.numpy(), grid, times)


def close(result, expected, tolerance=1e-6):
    return float((result - expected).norm() / expected.norm()) < tolerance


def test_operators_are_described(client):
    operators = {
        served["key"]: served for served in client.get("/api/operators").json()["operators"]
    }
    names = ["darcy-PDNO", "darcy-FNO", "flow-steps", "flow-window", "heat-PDIO", "family-PDIO"]
    assert list(operators) == names
    assert operators["darcy-PDNO"]["input"]["low"] == 3.0
    assert operators["darcy-PDNO"]["resolutions"] == [8, 16, 32, 64]
    assert (operators["flow-steps"]["window"], operators["flow-window"]["window"]) == (0, 2)
    assert operators["heat-PDIO"]["any_time"] and not operators["flow-steps"]["any_time"]
    assert all(served["equation"] for served in operators.values())


def test_samples_come_with_their_truth(client, runs):
    """Also of runs on own data, for which there is no solver."""
    operators = client.get("/api/operators").json()["operators"]
    flow = next(served for served in operators if served["key"] == "darcy-PDNO")
    run = pdno.load_run(runs[0])
    for number, sample in enumerate(flow["samples"]):
        for name in ("input", "target"):
            raw = np.frombuffer(base64.b64decode(sample[name]["data"]), dtype="<f4")
            assert raw.reshape(1, 16, 16) == pytest.approx(run.array(name)[number])
    assert len(flow["samples"]) == 2
    family = next(served for served in operators if served["key"] == "family-PDIO")
    assert family["samples"] == []  # they are of other members


def test_grids_too_coarse_for_all_modes_are_served():
    """16 x 16 points hold eight of the twelve modes of this operator."""
    folder = Path(__file__).parents[2] / "results" / "operators" / "darcy"
    served, k = serve_runs([folder])["darcy"], field(16, 16, positive=True)
    assert served.resolutions == [16, 32, 64, 128]
    state = State(served, StateRequest.model_validate(ask("darcy", k)))
    with warnings.catch_warnings(action="ignore"):  # once in a process, of the other modes
        result = state.conditions().predict(state.inputs())
        assert close(result, pdno.load(folder).predict(k[None, None]))


@pytest.mark.parametrize("points", [16, 32])
def test_a_prediction_is_that_of_the_operator(client, runs, points):
    k = field(points, points, positive=True)
    result = numbers(client.post("/api/predict", json=ask("darcy-PDNO", k)))
    assert close(result[None], pdno.load(runs[0]).predict(k[None, None]))


def test_steps_windows_and_times_are_predicted(client, runs):
    w = field(16, 16)
    result = numbers(client.post("/api/predict", json=ask("flow-steps", w, frames=3)))
    assert close(result, pdno.load(runs[2]).predict(w[None, None], times=[3, 4, 5])[0, :, 0])
    problem = pdno.load_run(runs[3]).experiment.problem
    solution = reference_solution(problem, w.numpy(), pdno.Grid((16, 16)), [1.0, 2.0])
    window = torch.from_numpy(solution.frames)
    expected = pdno.load(runs[3]).predict(window[None], times=[3, 4])[0, :, 0]
    result = numbers(client.post("/api/predict", json=ask("flow-window", w, frames=2)))
    assert close(result, expected, 1e-4)
    u, times = field(32), [0.21, 0.7]
    result = numbers(client.post("/api/predict", json=ask("heat-PDIO", u, times=times)))
    assert close(result, pdno.load(runs[4]).predict(u[None, None], times=times)[0, :, 0])


def test_a_family_is_told_which_equation_it_is(client, runs):
    (slider,) = next(
        served["constants"]
        for served in client.get("/api/operators").json()["operators"]
        if served["key"] == "family-PDIO"
    )
    name, low, high = slider
    assert name == "diffusivity" and 0.01 <= low < high <= 0.1
    u, t = field(32), 0.3
    for c in (low, (low + high) / 2):
        body = ask("family-PDIO", u, times=[t], constants=[c])
        result = numbers(client.post("/api/predict", json=body))
        options = {"times": [t], "pde_parameters": {"diffusivity": c}}
        assert close(result, pdno.load(runs[5]).predict(u[None, None], **options)[0, :, 0])
        truth = numbers(client.post("/api/truth", json=body))
        assert close(truth[0], u * np.exp(-4 * np.pi**2 * c * t))
        inside = client.post("/api/layer", json=body | {"layer": 0, "time": t}).json()
        assert inside["real"]["shape"] == [17] and inside["after"]["shape"] == [32]
    for wrong in ([], [10 * high], [c, c]):
        body = ask("family-PDIO", u, times=[t], constants=wrong)
        assert client.post("/api/predict", json=body).status_code == 422
    result = client.get("/api/certificate", params={"operator": "family-PDIO", "layer": 0})
    assert result.json()["reasons"]


def test_the_truth_is_that_of_the_solver(client, catalogue):
    u, times = field(32), [0.3]
    result = numbers(client.post("/api/truth", json=ask("heat-PDIO", u, times=times)))
    exact = u * np.exp(-4 * np.pi**2 * 0.05 * 0.3)
    assert close(result[0], exact)
    k = torch.full((16, 16), 5.0)
    result = numbers(client.post("/api/truth", json=ask("darcy-FNO", k)))
    twice = numbers(client.post("/api/truth", json=ask("darcy-FNO", 2 * k)))
    assert close(result, 2 * twice) and float(result.min()) > 0
    # the data of the run lie at the first of every two points of the solver
    problem = catalogue["darcy-FNO"].problem
    fine, _ = problem.solve(torch.full((1, 1, 32, 32), 5.0).double())
    assert close(result, fine[:, 0, ::2, ::2].float(), 1e-5)
    w = field(16, 16)
    later = numbers(client.post("/api/truth", json=ask("flow-window", w, frames=2)))
    sooner = numbers(client.post("/api/truth", json=ask("flow-steps", w, frames=4)))
    assert later.shape[0] == 2 and close(later, sooner[2:], 1e-5)


def test_a_pair_of_channels_adds_up_to_the_layer(client, catalogue):
    """Σ_i K_ji v_i is what the layer gives for output j."""
    k, operator = field(16, 16, positive=True), catalogue["darcy-PDNO"].operator
    outputs = []
    hook = operator.operators[1].register_forward_hook(lambda _, __, out: outputs.append(out))
    operator.predict(k[None, None])
    hook.remove()
    total = torch.zeros(16, 16)
    for channel in range(4):
        body = ask("darcy-PDNO", k, layer=1, output=2, input=channel)
        result = client.post("/api/layer", json=body).json()
        raw = base64.b64decode(result["after"]["data"])
        total += torch.from_numpy(np.frombuffer(raw, dtype="<f4").reshape(16, 16).copy())
        assert result["space"]["shape"] == [16, 16] and result["real"]["shape"] == [6, 3]
    assert close(total, outputs[0][0, 2].detach(), 1e-5)


def test_certificates_are_given_in_words(client):
    result = client.get("/api/certificate", params={"operator": "heat-PDIO", "layer": 0}).json()
    assert (
        result["assessment"] in ("proved", "consistent", "undecided", "counterexample")
        and result["reasons"]
    )
    assert len(result["radii"]) == len(result["curves"]["0"])


def test_a_page_has_the_certificates_of_the_server(client, catalogue, monkeypatch):
    """Its models are left out: ONNX Runtime is an extra."""

    class File:
        inputs = torch.zeros(1, 1, 32)

    def write(_, out, **options):
        out.write_bytes(b"model")
        return File

    monkeypatch.setattr(page, "export", write)
    files, _ = page._describe(catalogue["heat-PDIO"], "operator-0", None)
    (layer,) = json.loads(files["operator-0-inside.json"])
    result = client.get("/api/certificate", params={"operator": "heat-PDIO", "layer": 0})
    assert layer["certificate"] == result.json()


def test_predictions_that_wait_are_made_together(catalogue, monkeypatch):
    served, k = catalogue["darcy-FNO"], field(16, 16, positive=True)[None, None]
    conditions = Conditions(served.operator, served.sampling.grid)
    sizes, predict = [], Conditions.predict

    def slowly(self, inputs):
        sizes.append(len(inputs))
        time.sleep(0.05)
        return predict(self, inputs)

    async def many():
        batches = Batches(8)
        tasks = [batches.predict(conditions, scale * k) for scale in range(1, 13)]
        return await asyncio.gather(*tasks)

    monkeypatch.setattr(Conditions, "predict", slowly)
    predictions = asyncio.run(many())
    assert sum(sizes) == 12 and len(sizes) <= 3 and max(sizes) == 8
    for scale, prediction in enumerate(predictions, start=1):
        assert close(prediction, served.operator.predict(scale * k)[0])


def test_a_solve_ends_when_the_reader_leaves():
    flow = NavierStokesProblem(viscosity=1e-5, resolution=64)
    heat, u = HeatProblem(resolution=32), field(32)

    async def leave():
        solver = Worker()
        solution = solver.run(solve(flow, field(64, 64), [1000.0]))
        task = asyncio.ensure_future(solution)
        while solver.pid is None:
            await asyncio.sleep(0.05)
        number = solver.pid
        await asyncio.sleep(0.5)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        with pytest.raises(ProcessLookupError):
            for _ in range(100):
                os.kill(number, 0)
                await asyncio.sleep(0.05)
        other = await solver.run(solve(heat, u, [0.1]))  # a new process
        solver.end()
        return other

    assert asyncio.run(leave()).frames.shape == (1, 32)


def test_waiting_for_the_solver_and_leaving_does_not_end_the_solve_of_another():
    heat, u = HeatProblem(resolution=32), field(32)

    async def leave():
        solver = Worker()
        first = asyncio.ensure_future(solver.run(solve(heat, u, [0.1])))
        second = asyncio.ensure_future(solver.run(solve(heat, u, [0.2])))
        await asyncio.sleep(0.1)
        second.cancel()
        try:
            return await first
        finally:
            solver.end()

    assert asyncio.run(leave()).frames.shape == (1, 32)


def test_a_solver_that_takes_too_long_is_ended():
    flow = NavierStokesProblem(viscosity=1e-5, resolution=64)

    async def wait():
        solver = Worker(seconds=0.5)
        with pytest.raises(SolverError, match="has no solution within 0.5 seconds"):
            await solver.run(solve(flow, field(64, 64), [1000.0]))
        return solver.pid

    assert asyncio.run(wait()) is None


K = field(16, 16, positive=True)
GOOD = ask("darcy-PDNO", K)
HOSTILE = {
    "unknown operator": GOOD | {"operator": "../../etc/passwd"},
    "no operator": {"shape": [16, 16]},
    "another number of axes": GOOD | {"shape": [16]},
    "shape and data differ": GOOD | {"shape": [32, 32]},
    "not square": GOOD | {"shape": [16, 32]},
    "a shape that is not served": ask("darcy-PDNO", field(12, 12, positive=True)),
    "huge": GOOD | {"shape": [10**9, 10**9]},
    "negative": GOOD | {"shape": [-16, -16]},
    "no base64": GOOD | {"data": "%%%%"},
    "NaN": ask("darcy-PDNO", K * float("nan")),
    "infinite": ask("darcy-PDNO", K * float("inf")),
    "too large": ask("darcy-PDNO", K * 1e9),
    "not positive": ask("darcy-PDNO", -K),
    "constants": GOOD | {"constants": [1.0]},
    "too many frames": GOOD | {"frames": 10**6},
    "frames as text": GOOD | {"frames": "3"},
    "times below zero": GOOD | {"times": [-1.0]},
    "another key": GOOD | {"__class__": "x"},
    "a list": [1, 2, 3],
    "null": None,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_not_asked_well_is_refused(client, name):
    for path in ("predict", "truth", "layer"):
        answer = client.post(f"/api/{path}", json=HOSTILE[name])
        assert 400 <= answer.status_code < 500 and answer.json()["detail"], path


@pytest.mark.parametrize(
    ("content", "kind", "status"),
    [
        (b"[" * 10**6, "application/json", 4),
        (b'{"frames": NaN}', "application/json", 422),
        (b"\xff\xfe", "application/json", 4),
        (b"a" * (5 * 2**20), "application/json", 413),
        (json.dumps(GOOD).encode(), "text/plain", 415),
        (json.dumps(GOOD).encode(), "multipart/form-data", 415),
        (b"operator=1", "application/x-www-form-urlencoded", 415),
    ],
)
def test_other_content_is_refused(client, content, kind, status):
    answer = client.post("/api/predict", content=content, headers={"content-type": kind})
    assert str(answer.status_code).startswith(str(status))


def test_no_path_of_a_request_reaches_the_disk(client, monkeypatch):
    paths = ["/../pyproject.toml", "/..%2f..%2fetc%2fpasswd", "/etc/passwd", "/%00"]
    paths += ["/web/app.js", "/server.py", "/package.json", "//etc/passwd", "/.git/config"]
    for path in paths:
        assert client.get(path).status_code == 404, path
    assert client.get("/").text.startswith("<!doctype html>")
    assert client.get("/app.js").headers["content-type"].startswith("text/javascript")
    assert "default-src 'self'" in client.get("/").headers["content-security-policy"]


def test_other_hosts_are_not_served(client):
    assert client.get("/", headers={"host": "evil.example"}).status_code == 400


CROSS_SITE = (
    {"sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "same-site"},
    {"origin": "https://evil.example"},
    {"origin": "null"},
)


@pytest.fixture
def computed(monkeypatch):
    """What processes of their own are asked for, which does not come until it is cancelled."""
    calls = {"begun": 0, "cancelled": 0}

    async def wait(self, function):
        if function is os.getpid:  # the process is started beforehand
            return 0
        calls["begun"] += 1
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            calls["cancelled"] += 1
            raise

    monkeypatch.setattr(Worker, "run", wait)
    return calls


CERTIFICATE = "/api/certificate?operator=darcy-PDNO&layer=0"


def until(condition):
    for _ in range(1200):
        if condition():
            return
        time.sleep(0.05)
    raise AssertionError("it never came")


def test_requests_of_other_sites_cost_nothing(runs, laboratory, computed):
    with laboratory(runs[:1]) as address, httpx.Client(base_url=address, timeout=60) as client:
        for headers in CROSS_SITE * 5:
            answer = client.get(CERTIFICATE, headers=headers)
            assert answer.status_code == 403 and "other pages" in answer.json()["detail"]
        for headers in CROSS_SITE:
            for path in ("predict", "truth", "layer"):
                answer = client.post(f"/api/{path}", json=GOOD, headers=headers)
                assert answer.status_code == 403
            assert client.get("/api/operators", headers=headers).status_code == 403
            assert client.get("/app.js", headers=headers).status_code == 403
        link = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
        assert client.get("/", headers=link).status_code == 200
        own = {"sec-fetch-site": "same-origin", "origin": address}
        assert client.post("/api/predict", json=GOOD, headers=own).status_code == 200
    assert computed["begun"] == 0


def test_equal_requests_are_computed_once_and_for_nobody_not_at_all(runs, laboratory, computed):
    head = f"GET {CERTIFICATE} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode()
    with laboratory(runs[:1]) as address:
        port = int(address.rpartition(":")[2])
        readers = [socket.create_connection(("127.0.0.1", port), timeout=60) for _ in range(20)]
        for reader in readers:
            reader.sendall(head)
        until(lambda: computed["begun"] == 1)
        for reader in readers[:-1]:
            reader.close()
        assert httpx.get(f"{address}/", timeout=60).status_code == 200
        assert computed == {"begun": 1, "cancelled": 0}
        readers[-1].close()
        until(lambda: computed["cancelled"] == 1)
        assert computed["begun"] == 1


def test_the_number_of_requests_at_work_is_limited(runs, laboratory, computed, monkeypatch):
    monkeypatch.setattr(server, "MOST_AT_WORK", 2)
    with laboratory(runs[:1]) as address:
        port = int(address.rpartition(":")[2])
        readers = [socket.create_connection(("127.0.0.1", port), timeout=60) for _ in range(2)]
        for layer, reader in enumerate(readers):
            path = CERTIFICATE.replace("layer=0", f"layer={layer}")
            reader.sendall(f"GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
        until(lambda: computed["begun"] == 2)
        answer = httpx.get(f"{address}/api/operators", timeout=60)
        assert answer.status_code == 429 and "try again" in answer.json()["detail"]
        for reader in readers:
            reader.close()


SLOW = (
    b"GET / HT",
    b"GET / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n{",
    b"POST /api/predict HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    b"content-length: 100\r\n\r\n{",
)


def test_slow_readers_are_sent_away(runs, laboratory, monkeypatch):
    monkeypatch.setattr(server, "SECONDS", 0.5)
    with laboratory(runs[:1]) as address:
        port = int(address.rpartition(":")[2])
        for sent in SLOW:
            with socket.create_connection(("127.0.0.1", port), timeout=60) as slow:
                slow.sendall(sent)
                answer = slow.recv(1000)
                assert answer.startswith(b"HTTP/1.1 408") and b"nosniff" in answer


def test_many_slow_readers_do_not_keep_others_out(runs, laboratory):
    """A few are waited for, others for a second."""
    with laboratory(runs[:1]) as address:
        port = int(address.rpartition(":")[2])
        slow = [socket.create_connection(("127.0.0.1", port), timeout=60) for _ in range(255)]
        for number, connection in enumerate(slow):
            connection.sendall(SLOW[number % len(SLOW)])
        assert httpx.get(f"{address}/", timeout=60).status_code == 200
        closed = [connection.recv(1000) for connection in slow[: -2 * server.MOST_SLOW]]
        assert all(answer.startswith(b"HTTP/1.1 408") for answer in closed)
        for connection in slow:
            connection.close()


def test_readers_who_do_not_read_take_no_memory(runs, laboratory, monkeypatch):
    size, status = 2**25, Path("/proc/self/statm")
    if not status.is_file():
        pytest.skip("the memory of this process is not known here")
    files = server.page_files() | {"large.js": bytes(size)}
    monkeypatch.setattr(server, "page_files", lambda: files)
    monkeypatch.setattr(server, "SECONDS", 1.0)

    def resident():
        return int(status.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    with laboratory(runs[:1]) as address:
        port, before = int(address.rpartition(":")[2]), resident()
        readers = [socket.create_connection(("127.0.0.1", port), timeout=60) for _ in range(20)]
        for reader in readers:
            reader.sendall(b"GET /large.js HTTP/1.1\r\nhost: localhost\r\n\r\n")
        time.sleep(0.5)
        assert httpx.get(f"{address}/", timeout=60).status_code == 200
        assert resident() - before < 5 * size
        time.sleep(2)
        for reader in readers:  # what the system holds, and then the end
            received = 0
            with contextlib.suppress(ConnectionResetError):
                while part := reader.recv(2**20):
                    received += len(part)
            assert received < size
            reader.close()


def test_every_response_has_the_security_headers(client):
    post = {"content": b"{}", "headers": {"content-type": "text/plain"}}
    responses = [client.get("/"), client.get("/none"), client.put("/api/predict")]
    responses += [client.post("/api/predict", **post), client.post("/api/predict", json={})]
    assert [response.status_code for response in responses] == [200, 404, 405, 415, 422]
    for response in responses:
        assert server.HEADERS.items() <= response.headers.items(), response.status_code


def test_a_port_is_checked():
    with pytest.raises(ValueError, match="port is 99999; expected 1 to 65535"):
        server.serve([], port=99999)


def test_a_folder_without_runs_is_told(tmp_path):
    with pytest.raises(ValueError, match="no finished run in"):
        serve_runs([tmp_path])
