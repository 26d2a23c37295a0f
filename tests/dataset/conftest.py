import pytest

from .common import KEPT, STREAMED


@pytest.fixture(params=[KEPT, STREAMED], ids=["kept", "streamed"])
def memory(request):
    return request.param
