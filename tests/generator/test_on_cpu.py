"""Generated kernels on the CPU: a few here, hundreds in the long run (`on_cpu.py`)."""

import pytest

from tests.generator.forms import FORMS
from tests.generator.judge import draw
from tests.generator.on_cpu import judge_on_cpu
from tileiras.targets.cpu import host

pytestmark = pytest.mark.skipif(host() is None, reason="no target for this machine")


@pytest.mark.sampled(5)
@pytest.mark.parametrize("form", FORMS)
def test_the_first_kernel_of_a_form_is_right(form):
    assert judge_on_cpu(draw(3, (form,))) == ("right", "")
