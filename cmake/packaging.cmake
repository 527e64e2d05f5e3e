# What `cmake --install` puts where, and the Debian package (`cpack -G DEB`).
include(GNUInstallDirs)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES ${PROJECT_SOURCE_DIR}/docs/man/ocr.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(PROGRAMS ${PROJECT_SOURCE_DIR}/scripts/fetch_models.sh DESTINATION ${CMAKE_INSTALL_DATADIR}/ocr)
file(CREATE_LINK ../${CMAKE_INSTALL_DATADIR}/ocr/fetch_models.sh ${PROJECT_BINARY_DIR}/ocr-fetch-models SYMBOLIC)
install(FILES ${PROJECT_BINARY_DIR}/ocr-fetch-models DESTINATION ${CMAKE_INSTALL_BINDIR})
install(FILES ${PROJECT_SOURCE_DIR}/datasets/sample/receipt.jpg DESTINATION ${CMAKE_INSTALL_DATADIR}/ocr/sample)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME ocr-toolkit)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_VENDOR "The ocr developers")
set(CPACK_PACKAGE_CONTACT "The ocr developers <maintainers@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Read text in pictures, scans and PDF pages")
set(CPACK_PACKAGE_DESCRIPTION "One native program for optical character recognition: it finds text lines in\npictures, scans and PDF pages and reads them with networks in ONNX format\n(PP-OCR and others). No Python and no inference runtime is needed.\nModels are not included: ocr-fetch-models brings them.")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION graphics)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)   # the libraries' packages and least versions, read from the binaries
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "fonts-wqy-microhei | fonts-noto-cjk | fonts-droid-fallback, poppler-data")
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "python3-pip")
include(CPack)

# A Debian package keeps its copyright under its own name.
configure_file(${CMAKE_CURRENT_LIST_DIR}/copyright.in ${PROJECT_BINARY_DIR}/copyright @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/copyright DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${CPACK_PACKAGE_NAME})
