"""Writes the wrappers of the MPI functions from functions.txt: ``generate.py OUT_DIR``.

``dispatch_table.h`` lists the exported symbols in order, ``wrappers.h`` holds the wrapper of each of them.
Symbols of one function: C, its large-count twin, Fortran (mpif.h and ``use mpi``) and Fortran 2008.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, replace
from pathlib import Path

HERE = Path(__file__).resolve().parent
LINE = re.compile(r"^(\w+)\(([^)]*)\)((?: (?:wait|pre|coll|c|large|special|new))*) ?(-|st_.*)?$")
# Handles that Fortran passes as integers, and how they become C handles.
HANDLES = {
    "MPI_Comm": "comm",
    "MPI_Datatype": "type",
    "MPI_Op": "op",
    "MPI_Win": "win",
    "MPI_Info": "info",
    "MPI_Request": "request",
}
# Open MPI's monitoring component reports each message to this function of its own library.
MONITORING = "mca_common_monitoring_record_pml"
# Hooks that read arrays of handles have a Fortran form of their own, which takes the integers.
FORTRAN_HOOKS = ("st_start", "st_request_free", "st_alltoallw", "st_neighbor_alltoallw")


@dataclass(frozen=True)
class Parameter:
    """One parameter: its type (with the pointers), its name, and whether it was written as an array."""

    kind: str
    name: str
    array: bool


@dataclass(frozen=True)
class Function:
    """One MPI function, without the prefix."""

    name: str
    parameters: tuple[Parameter, ...]
    flags: frozenset[str]
    hook: str


def parse_parameter(text: str) -> Parameter:
    """``const int counts[]`` and the like."""
    match = re.match(r"^(.*?)(\w+)(\[\])?$", text.strip())
    assert match, text
    return Parameter(match[1].strip(), match[2], bool(match[3]))


def parse(text: str) -> list[Function]:
    """The functions of the table."""
    found = []
    for line in text.splitlines():
        if not line or line.startswith("#"):
            continue
        match = LINE.match(line)
        assert match, f"functions.txt: {line!r} is not NAME(parameters) flags hook"
        parameters = tuple(parse_parameter(p) for p in match[2].split(",") if p)
        found.append(Function(match[1], parameters, frozenset(match[3].split()), match[4] or "-"))
    return [twin for function in found for twin in derive(function)]


def derive(function: Function) -> list[Function]:
    """The function and, for a collective, its non-blocking and persistent twins."""
    if "coll" not in function.flags:
        return [function]
    open_hook, _, arguments = function.hook.partition("(")
    request = Parameter("MPI_Request *", "request", False)
    info = Parameter("MPI_Info", "info", False)
    base = function.flags - {"coll"}
    return [
        replace(function, flags=base | {"waitcoll"}, hook=f"{open_hook}(ST_BLOCKING, NULL, {arguments}"),
        replace(
            function,
            name="I" + function.name[0].lower() + function.name[1:],
            parameters=(*function.parameters, request),
            flags=base,
            hook=f"{open_hook}(ST_NONBLOCKING, NULL, {arguments}",
        ),
        replace(
            function,
            name=function.name + "_init",
            parameters=(*function.parameters, info, request),
            flags=base | {"mpix", "new"},
            hook=f"{open_hook}(ST_PERSISTENT, request, {arguments}",
        ),
    ]


def c_type(parameter: Parameter, large: bool) -> str:
    """The C type of a parameter."""
    count = "MPI_Count" if large else "int"
    kind = {
        "Count": count,
        "Counts": f"const {count} *",
        "Displs": "const MPI_Aint *" if large else "const int *",
    }.get(parameter.kind, parameter.kind)
    return kind + " *" if parameter.array else kind


def hook_lines(function: Function, fortran: bool, large: bool) -> str:
    """The call of the hook, with arrays of counts wrapped so that one hook serves both widths."""
    hook = function.hook
    if hook == "-":
        return ""
    for parameter in function.parameters:
        if parameter.kind == "Counts":
            field = "wide" if large else "narrow"
            hook = re.sub(
                rf"\b{parameter.name}\b(?=[,)])", f"(struct st_counts){{.{field} = {parameter.name}}}", hook
            )
    name, _, rest = hook.partition("(")
    if fortran and name in FORTRAN_HOOKS:
        handle = "MPI_Datatype" if "alltoallw" in name else "MPI_Request"
        for parameter in function.parameters:
            if handle in parameter.kind:
                rest = re.sub(rf"\b{parameter.name}\b", f"{parameter.name}_f", rest)
        name += "_f"
    return f"{name}({rest};"


def body(function: Function, symbol: str, call: str, success: str, hook: str, setup: str) -> str:
    """Real call and hook in the right order."""
    lines = []
    wait = (
        "ST_WAIT_COLL" if "waitcoll" in function.flags else "ST_WAIT_P2P" if "wait" in function.flags else ""
    )
    if "pre" in function.flags:
        lines.append(f"    if (st_on) {{ {setup}{hook} }}")
    if wait:
        lines.append("    uint64_t begun = st_wait_begin();")
    lines.append(f"    {call}")
    if wait:
        lines.append(f"    st_wait_end({wait}, begun);")
    if hook and "pre" not in function.flags:
        lines.append(f"    if (st_on && {success}) {{ {setup}{hook} }}")
    return "\n".join(lines)


def c_wrapper(function: Function, symbol: str, large: bool) -> str:
    """The wrapper of a C symbol."""
    declared = ", ".join(f"{c_type(p, large)} {p.name}" for p in function.parameters) or "void"
    types = ", ".join(c_type(p, large) for p in function.parameters) or "void"
    arguments = ", ".join(p.name for p in function.parameters)
    call = f"int rc = ((int (*)({types}))st_real[ST_I_{symbol}])({arguments});"
    text = body(function, symbol, call, "rc == MPI_SUCCESS", hook_lines(function, False, large), "")
    return f"static int w_{symbol}({declared})\n{{\n{text}\n    return rc;\n}}\n"


def fortran_parameter(parameter: Parameter) -> tuple[str, str]:
    """Declaration of the Fortran argument (always a pointer) and the C local made from it."""
    kind, name = parameter.kind, parameter.name
    handle = kind.replace("const", "").replace("*", "").strip()
    if "void" in kind:
        return f"void *{name}_f", f"const void *{name} = st_f_buffer({name}_f); "
    if kind in ("Count", "int") and not parameter.array:
        return f"MPI_Fint *{name}_f", f"int {name} = (int)*{name}_f; "
    if kind in ("Counts", "Displs"):
        return f"MPI_Fint *{name}_f", f"const int *{name} = (const int *){name}_f; "
    if kind in ("MPI_Aint", "MPI_Count"):
        return f"{kind} *{name}_f", f"{kind} {name} = *{name}_f; "
    if handle in HANDLES:
        if parameter.array:
            return f"MPI_Fint *{name}_f", ""
        value = f"{handle} {name}_h = st_f_{HANDLES[handle]}(*{name}_f); "
        if "*" in kind:
            return f"MPI_Fint *{name}_f", f"{value}{handle} *{name} = &{name}_h; "
        return f"MPI_Fint *{name}_f", f"{handle} {name} = st_f_{HANDLES[handle]}(*{name}_f); "
    return f"void *{name}_f", ""


def fortran_wrapper(function: Function, symbol: str) -> str:
    """The wrapper of a Fortran symbol; Fortran 2008 may leave out ierror."""
    declared, setup = [], ""
    hook = hook_lines(function, True, False)
    for parameter in function.parameters:
        declaration, local = fortran_parameter(parameter)
        declared.append(declaration)
        if local and re.search(rf"\b{parameter.name}\b", hook):
            setup += local
    declared.append("MPI_Fint *ierror")
    types = ", ".join("void *" for _ in declared)
    arguments = ", ".join([f"{p.name}_f" for p in function.parameters] + ["ierror"])
    call = f"((void (*)({types}))st_real[ST_I_{symbol}])({arguments});"
    text = body(function, symbol, call, "(!ierror || *ierror == MPI_SUCCESS)", hook, setup)
    return f"static void w_{symbol}({', '.join(declared)})\n{{\n{text}\n}}\n"


def symbols(functions: list[Function]) -> list[tuple[str, str, str]]:
    """Exported symbol, the symbol of the MPI library behind it, wrapper (empty: written by hand)."""
    rows = []
    for function in functions:
        name, special = function.name, "special" in function.flags
        rows.append(
            (f"MPI_{name}", f"PMPI_{name}", "" if special else c_wrapper(function, f"MPI_{name}", False))
        )
        if "mpix" in function.flags:
            rows.append((f"MPIX_{name}", f"PMPIX_{name}", c_wrapper(function, f"MPIX_{name}", False)))
        if "large" in function.flags:
            rows.append((f"MPI_{name}_c", f"PMPI_{name}_c", c_wrapper(function, f"MPI_{name}_c", True)))
        if not special:
            for suffix in ("_", "_f08_"):
                low = f"{name.lower()}{suffix}"
                rows.append((f"mpi_{low}", f"pmpi_{low}", fortran_wrapper(function, f"mpi_{low}")))
    rows.append((MONITORING, MONITORING, ""))
    for low in ("init", "init_thread", "finalize"):
        rows += [(f"mpi_{low}{s}", f"pmpi_{low}{s}", "") for s in ("_", "_f08_")]
    return rows


def is_optional(exported: str, new: set[str]) -> bool:
    """Whether some MPI library lacks the symbol: programs may ask for it and do without."""
    name = exported.lower().removeprefix("mpix_").removeprefix("mpi_")
    base = name.removesuffix("_").removesuffix("_f08")
    return exported == MONITORING or exported.startswith("MPIX_") or exported.endswith("_c") or base in new


def main(out: Path) -> None:
    """Write both files."""
    functions = parse((HERE / "functions.txt").read_text())
    rows = symbols(functions)
    new = {f.name.lower() for f in functions if "new" in f.flags}
    lines = ["#ifndef ST_OPTIONAL", "#define ST_OPTIONAL ST_SYMBOL", "#endif"]
    for i, (exported, real, _) in enumerate(rows):
        macro = "ST_OPTIONAL" if is_optional(exported, new) else "ST_SYMBOL"
        lines.append(f"{macro}({i}, {exported}, {real})")
    table = "\n".join([*lines, "#undef ST_OPTIONAL", ""])
    (out / "dispatch_table.h").write_text(table)
    (out / "wrappers.h").write_text("\n".join(wrapper for _, _, wrapper in rows if wrapper))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
