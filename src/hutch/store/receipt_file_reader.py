"""A receipt in a file: a signed statement of a log's head that is stored elsewhere."""

from pathlib import Path

from hutch.domain.errors import BadRequest, NotFound
from hutch.store.record_format import STATEMENT_LIMIT_BYTES, InvalidRecord, parse_statement, recanonical
from hutch.store.signed_log_head_statements import Statement


def read_receipt(path: Path) -> Statement:
    """The receipt in a file: one statement as JSON."""
    name = repr(str(path))
    try:
        with path.open("rb") as file:
            text = file.read(STATEMENT_LIMIT_BYTES + 1)
    except FileNotFoundError:
        raise NotFound(f"{name} does not exist. Give the path of a receipt.") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = getattr(error, "strerror", None) or error
        raise BadRequest(f"{name} cannot be read ({reason}). Give the path of a receipt.") from None
    if len(text) > STATEMENT_LIMIT_BYTES:
        raise BadRequest(f"{name} is longer than {STATEMENT_LIMIT_BYTES} bytes, so it is not a receipt.")
    try:
        # Mail and editors reformat; the signature sees to the rest.
        receipt = parse_statement(recanonical(text))
    except InvalidRecord as damage:
        raise BadRequest(f"{name} is not a receipt: {damage}. Use the file as Hutch gave it.") from None
    if receipt.kind != "receipt":
        raise BadRequest(f"{name} holds a statement of kind {receipt.kind}, not a receipt.")
    return receipt
