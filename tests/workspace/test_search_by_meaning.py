"""Search by meaning: with a model behind a real endpoint, incremental, and shared by a base."""

from array import array
from collections.abc import Iterator
from pathlib import Path

import openai
import pytest

from hutch.domain.redaction import Redactor
from hutch.llm.embedding_model import Embedder
from hutch.llm.model_and_key_names import parse_model_name
from hutch.llm.model_factory import Access
from hutch.store.code_vector_database import CodeVectorTables, FilePart, remove_vectors
from hutch.workspace.code_search.ranked_matches import CodeQuery
from hutch.workspace.code_search.search_by_meaning import FILE
from hutch.workspace.code_search.workspace_code_search import FoundCode, search_code
from hutch.workspace.workspace import Workspace
from tests.llm.embedding_server import EmbeddingServer as Stand
from tests.llm.embedding_server import embedding_server, vector
from tests.workspace.preparation_fixtures import make_home, make_project
from tests.workspace.test_code_index import workspace_of

pytestmark = pytest.mark.anyio
SECRET = "kept-in-the-vault-0123456789"


@pytest.fixture
def server() -> Iterator[Stand]:
    with embedding_server() as started:
        yield started


def embedder(server: Stand, model: str = "openai:small", dimensions: int | None = None) -> Embedder:
    provider = model.partition(":")[0]
    access = Access(keys={"openai_api_key": "sk-test-key"}, base_urls={provider: server.url})
    return Embedder(parse_model_name(model), lambda: access, dimensions)


async def found(workspace: Workspace, model: Embedder, text: str, **more: object) -> FoundCode:
    return await search_code(workspace, CodeQuery(text=text, **more), model)


def paths(result: FoundCode) -> list[str]:
    return [match.path for match in result.matches]


async def test_files_are_found_by_meaning_without_a_common_word(tmp_path: Path, server: Stand) -> None:
    home, source = make_home(tmp_path), tmp_path / "source"
    make_project(source)
    async with workspace_of(home, "one", source) as workspace:
        workspace.files.write("garage.py", b"class Automobile:\n    def start(self):\n        return 1\n")
        assert paths(await search_code(workspace, CodeQuery(text="car"))) == []
        result = await found(workspace, embedder(server), "car")
        (match, *_) = result.matches
        assert (match.path, match.first_line, "near in meaning in lines 1 to 4" in match.why) == (
            *("garage.py", 1, True),
        )
        assert (result.by_meaning.missing, result.by_meaning.problem) == (0, "")
        by_word = await found(workspace, embedder(server), "automobile")
        assert paths(by_word)[0] == "garage.py" and "defines" not in by_word.matches[0].why
    assert server.keys == {"Bearer sk-test-key"}


async def test_only_new_contents_are_sent_and_a_base_is_shared(tmp_path: Path, server: Stand) -> None:
    home, source = make_home(tmp_path), tmp_path / "source"
    make_project(source)
    model = embedder(server)
    async with workspace_of(home, "one", source) as one:
        await found(one, model, "car")
        assert any("print('hello')" in text for text in server.texts)
        server.requests.clear()
        one.files.write("new.py", b"vehicle = 1\n")
        assert paths(await found(one, model, "car"))[0] == "new.py"
        assert server.texts == ["new.py\nvehicle = 1", "car"]
    server.requests.clear()
    async with workspace_of(home, "two", source) as two:
        assert "new.py" not in paths(await found(two, model, "car"))
        assert server.texts == ["car"]  # the other workspace has sent the files of the base
    (shared,) = home.bases.glob(f"*/{FILE}")
    tables = CodeVectorTables(shared, model.name)
    own = CodeVectorTables(home.workspace("one") / FILE, model.name)
    assert len(own.known()) == 1 and not own.known() & tables.known()  # new files stay in their workspace
    tables.close()
    own.close()


async def test_secrets_and_hidden_files_are_not_sent(tmp_path: Path, server: Stand) -> None:
    home, source = make_home(tmp_path), tmp_path / "source"
    make_project(source)
    async with workspace_of(home, "one", source) as workspace:
        workspace.files.write("car.py", f"key = '{SECRET}'\n".encode())
        workspace.files.write(".env", b"CAR=1\n")
        workspace.files.write("private/car.py", b"hidden = 1\n")
        mask, hides = Redactor([SECRET]).mask, lambda path: path.startswith("private/")
        result = await found(workspace, embedder(server), "vehicle", mask=mask, is_hidden=hides)
    assert paths(result)[0] == "car.py"
    sent = "\n".join(server.texts)
    assert SECRET not in sent and "key = '" in sent
    assert "CAR=1" not in sent and "hidden" not in sent


async def test_a_failing_model_leaves_the_search_by_words(tmp_path: Path, server: Stand) -> None:
    home, source = make_home(tmp_path), tmp_path / "source"
    make_project(source)
    async with workspace_of(home, "one", source) as workspace:
        for status in (500, 401, 429):
            server.status = status
            result = await found(workspace, embedder(server), "hello")
            assert paths(result) == ["src/main.py"] and result.by_meaning.problem
        without_key = Embedder(parse_model_name("openai:small"), Access)
        assert (
            "There is no key for openai" in (await found(workspace, without_key, "hello")).by_meaning.problem
        )
        wrong = embedder(server, "anthropic:claude")
        assert "cannot be used" in (await found(workspace, wrong, "hello")).by_meaning.problem
        server.status = 200
        assert (await found(workspace, embedder(server), "hello")).by_meaning.problem == ""


async def test_another_model_or_a_damaged_file_means_new_vectors(tmp_path: Path, server: Stand) -> None:
    home, source = make_home(tmp_path), tmp_path / "source"
    make_project(source)
    async with workspace_of(home, "one", source) as workspace:
        workspace.files.write("new.py", b"vehicle = 1\n")
        await found(workspace, embedder(server), "car")
        sent = len(server.texts)
        larger = await found(workspace, embedder(server, dimensions=16), "car")
        assert paths(larger)[0] == "new.py" and len(server.texts) == 2 * sent
        assert server.requests[-1]["dimensions"] == 16
        remove_vectors(workspace.directory / FILE)
        (workspace.directory / FILE).write_bytes(b"not a database" * 1000)
        damaged = await found(workspace, embedder(server, dimensions=16), "car")
        assert "Search again" in damaged.by_meaning.problem
        assert paths(await found(workspace, embedder(server, dimensions=16), "car"))[0] == "new.py"


def test_the_nearest_parts_of_given_contents_are_found(tmp_path: Path) -> None:
    tables = CodeVectorTables(tmp_path / "v.sqlite", "m")
    for name, text in ((b"a", "car"), (b"b", "wait"), (b"c", "car wait")):
        data = array("f", vector(text)).tobytes()
        tables.add([(name, [FilePart(1, 2, data)])])
        tables.add([(name, [FilePart(1, 2, data), FilePart(3, 4, data)])])  # it is there already
    query = array("f", vector("car")).tobytes()
    assert [each.blob for each in tables.find(query, [b"a", b"b", b"c"], 2)] == [b"a", b"c"]
    assert [each.blob for each in tables.find(query, [b"b"], 5)] == [b"b"]
    assert tables.find(query[:8], [b"a"], 5) == []  # of another model
    tables.close()


def test_the_stand_in_speaks_the_protocol_of_the_provider(server: Stand) -> None:
    client = openai.OpenAI(base_url=server.url, api_key="k")
    reply = client.embeddings.create(model="small", input=["a car", "b"], encoding_format="float")
    assert [each.index for each in reply.data] == [1, 0] and reply.data[1].embedding == vector("a car")
    client.close()
