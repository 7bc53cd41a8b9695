import pytest

from tileiras.build.scons.variables import BadVariable, construction_variables, help_text, names
from tileiras.build.store.fingerprint import CodeBase
from tileiras.cli.driver_options import command_line
from tileiras.diagnostics import CompileError
from tileiras.driver.tileir_pipeline import TileIRPipelineOptions
from tileiras.options import GPU_NAMES, OPTIONS, CompileOptions, lookup
from tileiras.pipeline import EMIT, STAGES, stage
from tileiras.stages import StageOptions, UndeclaredOption

STRATEGY = "tileiras.schedule.strategy"
"""The module that reads options for stages that build a `Strategy`."""


def test_a_stage_cannot_read_an_option_it_does_not_declare():
    options = StageOptions("ptx", ("ptx-version",), CompileOptions({"ptx-version": "8.7"}))
    assert options.ptx_version == options["ptx-version"] == "8.7"
    with pytest.raises(UndeclaredOption, match="stage 'ptx' reads option 'num-warps'"):
        options.num_warps


def test_stages_declare_only_options_that_exist():
    for row in STAGES:
        assert [name for name in row.options if name not in OPTIONS] == []


def test_every_option_is_read_by_some_stage():
    read = {name for row in STAGES for name in row.options}
    assert sorted(set(OPTIONS) - read) == []


def test_a_stage_reads_its_declared_inputs():
    """An option that a stage declares and does not read would rerun it without effect."""
    code = CodeBase()
    unread = []
    for row in STAGES:
        with open(code.path(row.module_name), encoding="utf-8") as file:
            text = file.read()
        if "Strategy.of(options)" in text:
            with open(code.path(STRATEGY), encoding="utf-8") as file:
                text += file.read()
        for name in row.options:
            if f"options.{name.replace('-', '_')}" not in text and f'"{name}"' not in text:
                unread.append(f"{row.name}: {name}")
    assert unread == []


def test_emit_names_the_artifact_of_a_stage():
    for name, (stage_name, suffix) in EMIT.items():
        assert suffix == stage(stage_name).suffix, name


@pytest.mark.parametrize(
    "given, message",
    [
        ({"num-wraps": 4}, "unknown option 'num-wraps' (did you mean 'num-warps'?)"),
        ({"num-warps": 3}, "invalid value for option 'num-warps': 3; accepted: 1, 2, 4, 8, 16, 32"),
        ({"num-warps": True}, "invalid value for option 'num-warps': True"),
        ({"num-warps": "many"}, "'many' value invalid for integer option 'num-warps'"),
        ({"num-warps": "3"}, "invalid value for option 'num-warps': 3; accepted: 1, 2, 4, 8, 16, 32"),
        ({"ftz": 2}, "invalid value for option 'ftz': 2; accepted: true, false"),
        ({"ftz": "maybe"}, "'maybe' value invalid for option 'ftz'; accepted: true, false"),
        ({"ptxas-options": 3}, "invalid value for option 'ptxas-options': (3,); accepted: a list of words"),
        ({"opt-level": 5}, "invalid optimization level: 5"),
        ({"gpu-name": "sm_70"}, "GPU architecture sm_70 is not supported by this version of tileiras"),
        ({"device-debug": True}, "optimized debugging is currently not supported"),
        ({"ptx-version": "new"}, "expected a version such as 8.7"),
    ],
)
def test_rejected_values_are_configuration_errors(given, message):
    with pytest.raises(CompileError) as caught:
        CompileOptions(given)
    assert message in str(caught.value)
    assert caught.value.code == 2


@pytest.mark.parametrize("value", [True, 1, "1", "true", "True", "TRUE"])
def test_booleans_are_taken_in_every_spelling(value):
    options = CompileOptions({"ftz": value, "num-warps": "8"})
    assert options["ftz"] is True and options["num-warps"] == 8
    assert options.canonical(["ftz"]) == CompileOptions({"ftz": True}).canonical(["ftz"])
    word = str(value)
    assert construction_variables({"ftz": word})["TILE_OPTIONS"]["ftz"] is True
    assert command_line().parse([f"--ftz={word}"])[1]["ftz"] is True
    assert TileIRPipelineOptions.parse(f"tileir{{ftz={word}}}", {})["ftz"] is True


@pytest.mark.parametrize("value", [False, 0, "0", "false", "False", "FALSE"])
def test_and_so_is_their_absence(value):
    word = str(value)
    assert CompileOptions({"ftz": value})["ftz"] is False
    assert construction_variables({"ftz": word})["TILE_OPTIONS"]["ftz"] is False
    assert command_line().parse([f"--ftz={word}"])[1]["ftz"] is False
    assert TileIRPipelineOptions.parse(f"tileir{{ftz={word}}}", {})["ftz"] is False
    assert construction_variables({"tile_full": word})["TILE_OPTIONS"] == {}


def test_canonical_form_ignores_order_and_files_of_this_machine():
    one = CompileOptions({"tile-launch": True, "gpu-name": "sm_90", "libdevice": "/somewhere/libdevice.bc"})
    two = CompileOptions({"gpu-name": "sm_90", "tile-launch": True})
    names = ["libdevice", "gpu-name", "tile-launch"]
    assert one.canonical(names) == two.canonical(reversed(names))
    assert one.canonical(["tile-launch"]) != CompileOptions({"gpu-name": "sm_90"}).canonical(["tile-launch"])


def test_python_and_command_line_spelling_name_the_same_option():
    assert lookup("num_warps") is lookup("num-warps")
    assert lookup("line_info") is lookup("line-info") is lookup("lineinfo")


def test_gpu_names_are_the_chips_of_the_target_table():
    from tileiras.codegen.target_machine import PROCESSORS

    assert sorted(GPU_NAMES) == sorted(name for name, row in PROCESSORS.items() if not row.suffix)


def test_variables_become_construction_variables():
    entry = {"sm": "sm_90,sm_100,sm_90", "opt": "2", "num-warps": "8", "tile-launch": "1", "executor": "dask://a:8786"}
    result = construction_variables(entry)
    assert result == {
        "TILE_SM": "sm_90,sm_100",
        "TILE_OPT": 2,
        "TILE_EMIT": "",
        "TILE_EXECUTOR": "dask://a:8786",
        "TILE_OVERRIDES": "",
        "TILE_CHECK": False,
        "TILE_OPTIONS": {"num-warps": 8, "tile-launch": True},
    }


@pytest.mark.parametrize(
    "arguments, listed",
    [
        ({"smm": "sm_90"}, "sm, opt, emit"),
        ({"sm": "sm_91"}, "sm_90, sm_100"),
        ({"sm": ""}, "sm_90, sm_100"),
        ({"opt": "4"}, "0, 1, 2, 3"),
        ({"emit": "elf"}, "cuda_tile, tileaa"),
        ({"emit": "ptx,elf"}, "cuda_tile, tileaa"),
        ({"tile_full": "maybe"}, "true, false"),
        ({"num-warps": "3"}, "1, 2, 4, 8, 16, 32"),
        ({"tile-launch": "maybe"}, "true, false"),
        ({"gpu-name": "sm_90"}, "sm, opt, emit"),
    ],
)
def test_bad_variables_are_refused_with_the_accepted_values(arguments, listed):
    with pytest.raises(BadVariable) as caught:
        construction_variables(arguments)
    assert listed in str(caught.value)


def test_help_shows_every_variable():
    text = help_text()
    assert [name for name in names() if f"  {name}=" not in text] == []
