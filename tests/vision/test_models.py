"""Models of images: torchvision's keys, prints and numbers, family by family."""

from __future__ import annotations

import hashlib
import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refused import check_refused, rows

import pyframe as pf
from pyframe import nn
from pyframe.vision import models

# torchvision's builders
NAMES = """
alexnet convnext_base convnext_large convnext_small convnext_tiny densenet121 densenet161
densenet169 densenet201 efficientnet_b0 efficientnet_b1 efficientnet_b2 efficientnet_b3
efficientnet_b4 efficientnet_b5 efficientnet_b6 efficientnet_b7 efficientnet_v2_l
efficientnet_v2_m efficientnet_v2_s mobilenet_v2 mobilenet_v3_large mobilenet_v3_small resnet101
resnet152 resnet18 resnet34 resnet50 resnext101_32x8d resnext101_64x4d resnext50_32x4d
squeezenet1_0 squeezenet1_1 vgg11 vgg11_bn vgg13 vgg13_bn vgg16 vgg16_bn vgg19 vgg19_bn vit_b_16
vit_b_32 vit_h_14 vit_l_16 vit_l_32 wide_resnet101_2 wide_resnet50_2
""".split()


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights stay 0, in memory that is not even touched: large models are made fast."""
    for name in ("uniform_", "normal_"):
        monkeypatch.setattr(pf.Tensor, name, lambda self, *args, **kwargs: self)
    monkeypatch.setattr(nn.init, "trunc_normal_", lambda tensor, *args, **kwargs: tensor)


def contents(state: Any) -> str:
    return "\n".join(
        f"{key} {list(value.shape)} {str(value.dtype).partition('.')[2]}"
        for key, value in state.items()
    )


@pytest.mark.parametrize("name", NAMES)
def test_builder(
    name: str, undrawn: None, torch: Any, torchvision: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The keys, shapes and dtypes of its state, and what it prints: strides, paddings, rates."""
    for init in [n for n in vars(torch.nn.init) if n.endswith("_") and n[0] != "_"]:
        monkeypatch.setattr(torch.nn.init, init, lambda tensor, *args, **kwargs: tensor)
    with torch.device("meta"):
        theirs = torchvision.models.get_model(name)
    ours = models.get_model(name, weights=None)
    assert contents(ours.state_dict()) == contents(theirs.state_dict())
    assert [p.shape for p in ours.parameters()] == [p.shape for p in theirs.parameters()]
    assert repr(ours) == repr(theirs)


def test_list_of_models() -> None:
    ours = models.list_models()
    assert set(ours) == {*NAMES, "lenet", "unet"}
    assert ours == models.list_models(models)
    assert models.list_models(include="resnet*", exclude=["*50", "*1*"]) == ["resnet34"]
    assert models.list_models(include=["vit_b*", "lenet"]) == ["lenet", "vit_b_16", "vit_b_32"]
    assert models.get_model_builder("ResNet18") is models.resnet18
    assert models.resnet18.__name__ == "resnet18"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where what is fetched is kept."""
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "home"))
    folder = tmp_path / "home" / "hub" / "checkpoints"
    folder.mkdir(parents=True)
    return folder


def test_weights_of_a_file_a_folder_and_an_address(
    home: Path, tmp_path: Path, undrawn: None, torch: Any, torchvision: Any
) -> None:
    theirs = torchvision.models.squeezenet1_1(num_classes=5).eval()
    torch.save(theirs.state_dict(), tmp_path / "made")
    digest = hashlib.sha256((tmp_path / "made").read_bytes()).hexdigest()
    file = (tmp_path / "made").rename(tmp_path / f"squeezenet1_1-{digest[:8]}.pth")  # as published
    x = np.random.default_rng(0).standard_normal((2, 3, 64, 64)).astype(np.float32)
    with torch.no_grad():
        expected = theirs(torch.from_numpy(x)).numpy()
    plain = tmp_path / "other" / "weights.pth"
    plain.parent.mkdir()
    plain.write_bytes(file.read_bytes())
    given = [file, str(tmp_path), plain, plain.parent, file.as_uri(),
             f"{plain.as_uri()}#sha256={digest}"]  # fmt: skip
    for weights in given:
        net = models.squeezenet1_1(weights=weights, num_classes=5, progress=False).eval()
        for key, value in net.state_dict().items():
            assert np.array_equal(value.numpy(), theirs.state_dict()[key].numpy()), key
    np.testing.assert_allclose(net(pf.tensor(x)).detach().numpy(), expected, 1e-3, 1e-4)
    assert {p.name for p in home.iterdir()} == {file.name, "weights.pth"}
    file.unlink()
    models.squeezenet1_1(file.as_uri(), num_classes=5)  # it is kept
    (home / "weights.pth").write_bytes(b"another")
    models.squeezenet1_1(given[-1], progress=False, num_classes=5)  # and checked by a digest given
    assert (home / "weights.pth").read_bytes() == plain.read_bytes()


def test_published_weights_by_their_names(
    home: Path, undrawn: None, torch: Any, torchvision: Any
) -> None:
    theirs = torchvision.models.squeezenet1_1()
    torch.save(theirs.state_dict(), home / "squeezenet1_1-b8a52dc0.pth")
    enum = models.SqueezeNet1_1_Weights
    for weights in (enum.DEFAULT, "DEFAULT", "IMAGENET1K_V1", "SqueezeNet1_1_Weights.DEFAULT"):
        nets = models.get_model("squeezenet1_1", weights=weights), theirs
        ours, want = (net.classifier[1].weight.detach().numpy() for net in nets)
        assert np.array_equal(ours, want)
    assert models.squeezenet1_1(pretrained=True).num_classes == 1000
    assert enum.DEFAULT.get_state_dict(progress=False).keys() == theirs.state_dict().keys()


def test_all_that_is_published(torchvision: Any) -> None:
    """Names, addresses, accuracies and transforms of each."""
    count = 0
    for name in NAMES:
        theirs, ours = torchvision.models.get_model_weights(name), models.get_model_weights(name)
        assert ours.__name__ == theirs.__name__
        features = {"IMAGENET1K_FEATURES"}  # of VGG16: no classifier
        assert {*ours.__members__} == {*theirs.__members__} - features
        theirs_whole = [w for w in theirs if w.name not in features]
        assert ours is getattr(models, ours.__name__)
        for a, b in zip(ours, theirs_whole, strict=True):
            count += 1
            assert (a.url, repr(a)) == (b.url, repr(b))
            assert a.meta["_metrics"] == b.meta["_metrics"]
            assert a.meta.get("license") == b.meta.get("license")
            assert repr(a.transforms()) == repr(b.transforms())
            assert models.get_weight(str(a)) is a is pickle.loads(pickle.dumps(a))
        assert ours.DEFAULT.name == theirs.DEFAULT.name
    assert count == 63


@pytest.mark.parametrize("name", ["ResNet50_Weights.IMAGENET1K_V2", "ViT_B_16_Weights.DEFAULT",
                                  "EfficientNet_V2_L_Weights.DEFAULT"])  # fmt: skip
def test_transforms_of_weights(name: str, torch: Any, torchvision: Any) -> None:
    ours, theirs = (m.get_weight(name).transforms() for m in (models, torchvision.models))
    image = np.random.default_rng(0).integers(0, 256, (3, 260, 300), np.uint8)
    expected = theirs(torch.from_numpy(image)).numpy()
    got = ours(pf.tensor(image)).numpy()
    assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
    np.testing.assert_allclose(got, expected, atol=0.05)  # one step of 256, divided by std
    pil = pytest.importorskip("PIL.Image").fromarray(image.transpose(1, 2, 0))
    np.testing.assert_allclose(ours(pil).numpy(), theirs(pil).numpy(), atol=1e-5)
    half = models.get_weight(name).transforms(crop_size=8)
    assert half(pf.tensor(image)).shape == (3, 8, 8)


REFUSED = r"""
resnet50 -> RuntimeError: resnet18: .*resnet50.* doesn't fit: \d+ of 122 names and
few -> RuntimeError: size mismatch for fc.weight.*\[10, 512\].*\[1000, 512\]
less -> RuntimeError: 121 of 122 .*Missing key.*\"fc.bias\"
numbers -> ValueError: has no state_dict
file.pth -> ValueError: 'file.pth' is no file or folder, and no weights' name
IMAGENET1K_V9 -> ValueError: no weights are called 'IMAGENET1K_V9'; there are
ResNet50_Weights.DEFAULT -> ValueError: are the weights of another model
5 -> TypeError: takes a file, a folder, a URL.*got int
https://localhost/resnet18.pth -> ValueError: has no digest
file:///nowhere/resnet18-12345678.pth -> RuntimeError: no address has a good resnet18-
wrong -> RuntimeError: checksum mismatch: SHA-256 .*, expected 12345678
folder -> ValueError: no one file of its weights.*: none
two -> ValueError: a.pth, b.pth; say which
"""


@pytest.mark.parametrize(("weights", "said"), rows(REFUSED))
def test_weights_that_are_refused(
    weights: str, said: str, home: Path, tmp_path: Path, undrawn: None
) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    path = folder / "weights.pth"
    given: Any = path
    state = models.resnet18().state_dict()
    match weights:
        case "resnet50":
            given = folder / "resnet50.pth"
            pf.save(models.resnet50().state_dict(), given)
        case "few":
            pf.save(models.resnet18(num_classes=10).state_dict(), path)
        case "less":
            del state["fc.bias"]
            pf.save(state, path)
        case "numbers":
            pf.save({"epoch": 3}, path)
        case "wrong":
            pf.save(state, folder / "resnet18-12345678.pth")
            given = (folder / "resnet18-12345678.pth").as_uri()
        case "folder" | "two":
            given = folder
            for name in ("a.pth", "b.pth")[: 2 * (weights == "two")]:
                pf.save(state, folder / name)
        case _:
            given = int(weights) if weights.isdigit() else weights
    call = "models.resnet18(weights=given, progress=False)"
    check_refused(call, said, lambda lib: {"models": models, "given": given})
    assert not [*home.iterdir()]


def test_a_model_without_published_weights() -> None:
    models.lenet(weights=None, progress=False)
    models.lenet(pretrained=False)


VIT = """image_size=16, patch_size=8, num_layers=2, num_heads=2, hidden_dim=12, mlp_dim=20,
    num_classes=3"""
# A little member of each family, as either framework makes it.
SMALL = {
    "resnet": "r.ResNet(r.BasicBlock, [1, 2, 1, 1], 3)",
    "bottleneck": """r.ResNet(r.Bottleneck, [1, 1, 1, 2], 3, groups=2, width_per_group=32,
        replace_stride_with_dilation=(False, True, True))""",
    "group norm": "r.ResNet(r.BasicBlock, [1] * 4, 3, norm_layer=lambda n: nn.GroupNorm(8, n))",
    "densenet": "models.DenseNet(8, (2, 3), 16, num_classes=3)",
    "squeezenet": "models.squeezenet1_1(num_classes=3)",
    "squeezenet 1.0": "models.squeezenet1_0(num_classes=3)",
    "mobilenet v2": "models.MobileNetV2(3, 0.25)",
    "mobilenet v3": "models.mobilenet_v3_small(num_classes=3, width_mult=0.5, reduced_tail=True)",
    "dilated mobilenet v3":
        "models.mobilenet_v3_large(num_classes=3, width_mult=0.25, dilated=True)",
    "efficientnet": """e.EfficientNet([e.FusedMBConvConfig(1, 3, 1, 8, 8, 2),
        e.FusedMBConvConfig(4, 3, 2, 8, 16, 1), e.MBConvConfig(4, 5, 2, 16, 24, 2, 1.0, 1.5)],
        0.2, 0.0, 3)""",
    "convnext": """c.ConvNeXt([c.CNBlockConfig(8, 16, 1), c.CNBlockConfig(16, None, 2)],
        layer_scale=0.5, num_classes=3)""",
    "vit": f"v.VisionTransformer({VIT}, representation_size=5)",
    "vit with a stem": f"""v.VisionTransformer({VIT},
        conv_stem_configs=[v.ConvStemConfig(8, 3, 2), v.ConvStemConfig(12, 3, 4)])""",
}  # fmt: skip


def small(family: str, models: Any, nn: Any) -> Any:
    """One of SMALL in either framework."""
    files = {"r": "resnet", "e": "efficientnet", "c": "convnext", "v": "vision_transformer"}
    files = {name: getattr(models, file) for name, file in files.items()}
    return eval(SMALL[family], {"models": models, "nn": nn, **files})


def both(torch: Any, theirs: Any, ours: Any) -> tuple[Any, Any]:
    """Both models with the same numbers, none of which is where a model starts."""
    state = {}
    for key, value in theirs.state_dict().items():
        drawn = torch.randn(value.shape)
        if not value.is_floating_point():
            drawn = torch.zeros(value.shape, dtype=value.dtype)
        elif value.ndim > 1:
            drawn *= (value.shape[0] / value.numel()) ** 0.5
        else:
            drawn *= 0.1
            if key.endswith(("running_var", "weight")):
                drawn = (drawn + 1).abs()
        state[key] = drawn
    theirs.load_state_dict(state, assign=True)
    assert contents(ours.state_dict()) == contents(state)
    missing = ours.load_state_dict({k: pf.from_numpy(v.numpy()) for k, v in state.items()})
    assert not missing.missing_keys
    return theirs, ours


def little(family: str, torch: Any, torchvision: Any) -> tuple[Any, Any, tuple[int, ...]]:
    """(theirs, ours, the shape of the input) of one of `small`."""
    with torch.device("meta"):
        theirs = small(family, torchvision.models, torch.nn)
    size = 16 if family.startswith("vit") else 32
    return *both(torch, theirs, small(family, models, nn)), (2, 3, size, size)


def close(ours: Any, theirs: Any, tolerance: float = 1e-4) -> None:
    expected = theirs.detach().numpy()
    scale = max(1.0, float(np.abs(expected).max()))
    np.testing.assert_allclose(ours.detach().cpu().numpy(), expected, atol=tolerance * scale)


@pytest.mark.parametrize("family", SMALL)
def test_numbers(family: str, torch: Any, torchvision: Any, undrawn: None) -> None:
    theirs, ours, shape = little(family, torch, torchvision)
    x = torch.rand(shape) - 0.5
    close(ours.eval()(pf.from_numpy(x.numpy())), theirs.eval()(x))


MADE = """segmentation.fcn_resnet50(aux_loss=True,weights_backbone=None) video.r3d_18()
    segmentation.deeplabv3_resnet50(weights_backbone=None) video.mc3_18() video.r2plus1d_18()"""


@pytest.mark.parametrize("made", MADE.split())
def test_pixels_and_videos(made: str, torch: Any, torchvision: Any, undrawn: None) -> None:
    with torch.device("meta"):
        theirs = eval(f"models.{made}", {"models": torchvision.models})
    theirs, ours = both(torch, theirs, eval(f"models.{made}"))
    assert repr(ours) == repr(theirs)
    x = torch.rand(1, 3, *[4] * made.startswith("video"), 24, 16) - 0.5
    with torch.no_grad(), pf.no_grad():
        want, got = theirs.eval()(x), ours.eval()(pf.from_numpy(x.numpy()))
    assert isinstance(got, pf.Tensor) or [*got] == [*want]
    for name in want if isinstance(want, dict) else [...]:
        close(got[name], want[name])


@pytest.mark.parametrize(("family", "width"), [("alexnet", 256 * 36), ("vgg11_bn", 512 * 49)])
def test_numbers_of_large_classifiers(
    family: str, width: int, torch: Any, torchvision: Any, undrawn: None
) -> None:
    """All but the layers of 100 million weights: one of a few takes their place."""
    with torch.device("meta"):
        theirs = torchvision.models.get_model(family)
        theirs.classifier = torch.nn.Linear(width, 3)
    ours = models.get_model(family)
    ours.classifier = nn.Linear(width, 3)
    both(torch, theirs, ours)
    x = torch.rand(1, 3, 64, 64) - 0.5
    close(ours.eval()(pf.from_numpy(x.numpy())), theirs.eval()(x))


def test_memory_efficient_densenet() -> None:
    nets = [models.DenseNet(4, (2, 2), 8, num_classes=2, memory_efficient=b) for b in (False, True)]
    nets[1].load_state_dict(nets[0].state_dict())
    x = pf.rand(2, 3, 32, 32)
    for net in nets:
        net(x).sum().backward()
    for a, b in zip(*(net.parameters() for net in nets), strict=True):
        np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), atol=1e-5)


def in_torch(file: str) -> dict[str, Any]:
    """What a file of pyframe's own models defines, with PyTorch in the place of pyframe."""
    source = (Path(models.__file__).parent / file).read_text()
    source = re.sub(r"from pyframe(\.tensor)? import", "from torch import", source)
    source = re.sub(r"from pyframe\.vision.*", "builder = lambda *_: None", source)
    assert "pyframe" not in source
    names: dict[str, Any] = {"__name__": file}
    exec(compile(source, file, "exec"), names)
    return names


OWN: list[tuple[str, dict[str, Any], tuple[int, ...]]] = [
    ("LeNet", {}, (2, 1, 28, 28)),
    ("UNet", {"in_channels": 2, "channels": (4, 6, 8)}, (2, 2, 12, 16)),
]


@pytest.mark.parametrize(("name", "options", "shape"), OWN)
def test_own_models(name: str, options: dict[str, Any], shape: Any, torch: Any) -> None:
    made = (make(**options) for make in (in_torch("own.py")[name], getattr(models, name)))
    theirs, ours = both(torch, *made)
    x = torch.rand(shape)
    close(ours.eval()(pf.from_numpy(x.numpy())), theirs.eval()(x))
    assert repr(ours) == repr(theirs)


def test_unet_takes_sizes_that_are_multiples_of_its_strides() -> None:
    assert models.UNet(channels=(2, 2, 2))(pf.rand(1, 1, 8, 4)).shape == (1, 2, 8, 4)


def test_where_models_start() -> None:
    """The distributions of torchvision's initialisation."""
    net = models.resnet18(zero_init_residual=True)
    assert net.layer1[0].bn2.weight.abs().max().item() == 0.0
    assert net.layer1[0].bn1.weight.min().item() == 1.0
    std = net.layer4[1].conv2.weight.std().item()
    np.testing.assert_allclose(std, (2 / (512 * 9)) ** 0.5, rtol=0.02)  # He, by fan out
    net = models.MobileNetV2(1000, 0.25)
    np.testing.assert_allclose(net.classifier[1].weight.std().item(), 0.01, rtol=0.02)
    assert net.classifier[1].bias.abs().max().item() == 0.0
    net = models.convnext.ConvNeXt([models.convnext.CNBlockConfig(32, None, 2)])
    np.testing.assert_allclose(net.features[1][0].block[3].weight.std().item(), 0.02, rtol=0.05)
    assert net.features[1][1].layer_scale.unique().tolist() == pytest.approx([1e-6])
    block = models.efficientnet.MBConvConfig(1, 3, 1, 8, 8, 1)
    net = models.EfficientNet([block], 0.0, num_classes=400)
    assert 0.048 < net.classifier[1].weight.abs().max().item() <= 0.05
    net = models.VisionTransformer(16, 8, 1, 2, 32, 64)
    assert net.heads.head.weight.abs().max().item() == 0.0
    np.testing.assert_allclose(net.encoder.pos_embedding.std().item(), 0.02, rtol=0.3)
    net = models.squeezenet1_1()
    np.testing.assert_allclose(net.classifier[1].weight.std().item(), 0.01, rtol=0.02)


def test_blocks_are_dropped_while_training() -> None:
    c = models.convnext
    net = c.ConvNeXt([c.CNBlockConfig(4, None, 5)], stochastic_depth_prob=0.8, num_classes=2)
    rates = [m.p for m in net.modules() if isinstance(m, pf.vision.ops.StochasticDepth)]
    assert rates == pytest.approx([0.0, 0.2, 0.4, 0.6, 0.8])


MISTAKES = """
m.ResNet(r.BasicBlock, [1] * 4, groups=2) -> ValueError: only supports groups=1
m.ResNet(r.BasicBlock, [1] * 4, replace_stride_with_dilation=(True, True, True)) ->
    NotImplementedError: Dilation > 1
m.ResNet(r.BasicBlock, [1] * 4, replace_stride_with_dilation=(True,)) -> ValueError: 3-element tuple
m.MobileNetV2(inverted_residual_setting=[]) -> ValueError: non-empty
m.MobileNetV3([], 8) -> ValueError: should not be empty
m.MobileNetV3([1], 8) -> TypeError: InvertedResidualConfig
m.EfficientNet([], 0.1) -> ValueError: should not be empty
m.ConvNeXt([3]) -> TypeError: CNBlockConfig
m.SqueezeNet("1_2") -> ValueError: 1_0 or 1_1 expected
m.resnext50_32x4d(groups=16) -> ValueError: 'groups' expected value 32
m.VisionTransformer(20, 8, 1, 1, 4, 4) -> AssertionError: multiple of patch_size
m.VisionTransformer(16, 8, 1, 1, 4, 4)(pf.rand(1, 3, 16, 24)) -> AssertionError: Wrong image size
m.UNet(channels=(2, 2, 2))(pf.rand(1, 1, 8, 6)) -> ValueError: multiples of 4, got .1, 1, 8, 6.$
m.get_model("resnet19") -> ValueError: Unknown model resnet19
m.resnet19 -> AttributeError: no attribute 'resnet19'
m.ResNet19_Weights -> AttributeError: no attribute 'ResNet19_Weights'
m.squeezenet1_1(weights="DEFAULT", num_classes=3) ->
    ValueError: 'num_classes' expected value 1000 but got 3
m.vit_b_16(weights="IMAGENET1K_SWAG_E2E_V1", image_size=224) ->
    ValueError: 'image_size' expected value 384 but got 224
m.lenet(weights="DEFAULT") -> ValueError: 'DEFAULT' is no file or folder
m.get_model_weights("lenet") -> ValueError: lenet: no weights are published
"""


@pytest.mark.parametrize(("call", "text"), rows(MISTAKES))
def test_mistakes(call: str, text: str) -> None:
    check_refused(call, text, lambda lib: {"m": models, "r": models.resnet, "pf": pf})


def test_positions_of_another_image_size(torch: Any, torchvision: Any) -> None:
    state = {"encoder.pos_embedding": torch.rand(1, 10, 4), "heads.head.bias": torch.zeros(2)}
    mine = {k: pf.from_numpy(t.numpy()) for k, t in state.items()}
    theirs, ours = (
        of.vision_transformer.interpolate_embeddings(32, 8, dict(given), reset_heads=True)
        for of, given in ((torchvision.models, state), (models, mine))
    )
    assert list(ours) == ["encoder.pos_embedding"]
    close(ours["encoder.pos_embedding"], theirs["encoder.pos_embedding"])


def test_older_files_of_vit_and_densenet() -> None:
    """Files that torchvision hosts have names of before 2022, and norms without counts."""
    v = models.VisionTransformer
    for net, new, old, known in (
        (v(16, 8, 1, 2, 4, 6, num_classes=2), r"mlp\.(\d)",
         lambda m: f"mlp.linear_{int(m[1]) // 3 + 1}",
         "encoder.layers.encoder_layer_0.mlp.linear_2.bias"),
        (models.DenseNet(2, (1, 1), 4, num_classes=2), r"(layer\d+\.(?:norm|conv))(\d)", r"\1.\2",
         "features.denseblock1.denselayer1.norm.1.weight"),
    ):  # fmt: skip
        state = {k: v + 1 for k, v in net.state_dict().items() if not k.endswith("batches_tracked")}
        given = {re.sub(new, old, k): v for k, v in state.items()}
        assert known in given
        net.load_state_dict(given)
        assert all((now == state[k]).all() for k, now in net.state_dict().items() if k in state)
